// run_training: the loop around Trainer that writes metrics.jsonl, config.toml and checkpoints.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/io/files.h"
#include "cli/train/trainer.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

namespace fs = std::filesystem;

/// The run's folder; every method does nothing without one.
class RunFolder {
 public:
  RunFolder(const std::string& path, const Trainer& trainer) : path_(path) {
    if (path_.empty()) return;
    std::error_code failed;
    fs::create_directories(path_, failed);
    if (failed) throw Error("cannot create the folder " + path_ + ": " + failed.message());
    if (trainer.step() == 0 && fs::exists(path_ + "/checkpoint.safetensors", failed))
      throw Error(path_ + " holds another run: continue it with --resume, or choose a new folder");
    io::write_file_atomic(path_ + "/config.toml", to_toml(trainer.settings(), trainer.recipe().text));
    keep_metrics_until(trainer.step());
    metrics_ = std::fopen((path_ + "/metrics.jsonl").c_str(), "ab");
    if (metrics_ == nullptr) throw Error("cannot write " + path_ + "/metrics.jsonl");
  }
  ~RunFolder() {
    if (metrics_ != nullptr) std::fclose(metrics_);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void write(const StepReport& r, int64_t tokens_a_step) {
    if (metrics_ == nullptr) return;
    nlohmann::ordered_json line{{"step", r.step}, {"loss", r.loss}};
    if (r.val_loss) line["val_loss"] = *r.val_loss;
    line["lr"] = r.lr;
    line["grad_norm"] = r.grad_norm;
    line["tokens_per_s"] = r.seconds > 0 ? static_cast<double>(tokens_a_step) / r.seconds : 0.0;
    const std::string text = line.dump() + "\n";
    if (std::fwrite(text.data(), 1, text.size(), metrics_) != text.size() || std::fflush(metrics_) != 0)
      throw Error("cannot write " + path_ + "/metrics.jsonl");
  }

  void save(const Trainer& trainer) const {
    if (!path_.empty()) save_checkpoint(path_ + "/checkpoint.safetensors", trainer.state());
  }

 private:
  /// A killed run may have logged steps after its last checkpoint: they will be repeated.
  void keep_metrics_until(int64_t step) const {
    const std::string file = path_ + "/metrics.jsonl";
    std::error_code ignored;
    if (!fs::exists(file, ignored)) return;
    if (step == 0) {
      fs::remove(file, ignored);
      return;
    }
    std::string kept;
    const std::string text = io::read_text_file(file);
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text.substr(begin, end - begin);
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.value("step", step + 1) <= step) kept += line + "\n";
    }
    io::write_file_atomic(file, kept);
  }

  std::string path_;
  std::FILE* metrics_ = nullptr;
};

bool due(int64_t every, int64_t step, int64_t steps) { return every > 0 && step % every == 0 && step != steps; }

}  // namespace

TrainResult run_training(Trainer& trainer, const std::string& out,
                         const std::function<void(const StepReport&)>& on_step) {
  RunFolder folder(out, trainer);
  const Settings& s = trainer.settings();
  const int64_t steps = s.schedule.steps;
  double val_loss = trainer.step() == steps ? trainer.evaluate(0) : std::numeric_limits<double>::quiet_NaN();
  while (trainer.step() < steps) {
    const int64_t next = trainer.step() + 1;
    StepReport report =
        trainer.advance(next < steps && !due(s.eval_every, next, steps) && !due(s.save_every, next, steps));
    if (report.step == steps && s.val_fraction > 0) report.val_loss = val_loss = trainer.evaluate(0);
    if (due(s.eval_every, report.step, steps)) report.val_loss = trainer.evaluate(s.eval_batches);
    folder.write(report, trainer.tokens_a_step());
    on_step(report);
    if (due(s.save_every, report.step, steps)) folder.save(trainer);
  }
  folder.save(trainer);
  return trainer.result(val_loss);
}

}  // namespace fp4sim::train
