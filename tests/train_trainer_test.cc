// The training run: bit-exact resume, the same bits on any number of threads, every setting matters, no silent NaN.
#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/io/files.h"
#include "cli/train/trainer.h"
#include "fuzz/forwarding_backend.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/temp_folder.h"
#include "tests/tiny_settings.h"

namespace fp4sim::train {
namespace {

Settings tiny(const std::string& recipe) { return fp4sim::testing::tiny_settings(recipe, 2, 6); }

void ignore(const StepReport&) {}

TrainResult train_all(const Settings& s, const std::string& out = "", int threads = 2) {
  const auto backend = simd::make_backend(threads);
  Trainer trainer(*backend, s, load_recipe(s.recipe));
  return run_training(trainer, out, ignore);
}

/// simd that says it runs ahead: downloads that are started give what was there then, but only when they are awaited.
class AheadBackend final : public fuzz::ForwardingBackend {
 public:
  AheadBackend() : ForwardingBackend(simd::make_backend(1)) {}

  std::string name() const override { return "ahead"; }
  bool runs_ahead() const override { return true; }
  std::unique_ptr<Download> start_download(const Part& from, void* to, int64_t bytes) override {
    struct Later final : Download {
      Later(AheadBackend& backend, void* place, int64_t size)
          : owner(backend), target(place), content(static_cast<size_t>(size)) {
        owner.most_waiting = std::max(owner.most_waiting, ++owner.waiting);
      }
      ~Later() override { --owner.waiting; }
      void wait() override { std::memcpy(target, content.data(), content.size()); }
      AheadBackend& owner;
      void* target;
      std::vector<std::byte> content;
    };
    auto later = std::make_unique<Later>(*this, to, bytes);
    download(from, later->content.data(), bytes);
    return later;
  }
  int waiting = 0, most_waiting = 0;  // downloads
};

TEST(Trainer, a_step_starts_before_the_last_ones_results_are_read_and_nothing_changes) {
  Settings s = tiny("mxfp4-ste");
  s.eval_every = 4, s.eval_batches = 1;
  const auto reports_of = [&](Backend& backend, TrainResult& result) {
    std::vector<StepReport> reports;
    Trainer trainer(backend, s, load_recipe(s.recipe));
    result = run_training(trainer, "", [&](const StepReport& r) { reports.push_back(r); });
    return reports;
  };
  AheadBackend ahead;
  const auto plain = simd::make_backend(1);
  TrainResult result, expected;
  const auto reports = reports_of(ahead, result), list = reports_of(*plain, expected);
  EXPECT_EQ(ahead.most_waiting, 4) << "loss and norm of two steps";
  EXPECT_EQ(ahead.waiting, 0);
  EXPECT_EQ(result.hash, expected.hash);
  ASSERT_EQ(reports.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(reports[i].step, list[i].step);
    EXPECT_EQ(reports[i].loss, list[i].loss);
    EXPECT_EQ(reports[i].grad_norm, list[i].grad_norm);
    EXPECT_EQ(reports[i].lr, list[i].lr);
    EXPECT_EQ(reports[i].val_loss, list[i].val_loss);
  }
}

TEST(Trainer, has_no_state_while_a_step_is_under_way) {
  const Settings s = tiny("mxfp4-ste");
  AheadBackend ahead;
  Trainer trainer(ahead, s, load_recipe(s.recipe));
  trainer.advance(true);
  EXPECT_THROW(trainer.state(), Error);
  trainer.advance();
  EXPECT_EQ(trainer.state().step, 2);
}

class TrainedRecipe : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainedRecipe, resumes_bit_exactly_from_any_checkpoint) {
  const Settings s = tiny(GetParam());
  const TrainResult whole = train_all(s);
  for (const int64_t stop : {0, 1, 4}) {
    const fp4sim::testing::TempFolder folder;
    const std::string path = folder.path() + "/checkpoint.safetensors";
    const auto backend = simd::make_backend(1);
    {
      Trainer first(*backend, s, load_recipe(s.recipe));
      while (first.step() < stop) first.advance();
      save_checkpoint(path, first.state());
    }
    Trainer second(*backend, s, load_recipe(s.recipe));
    second.restore(load_checkpoint(path));
    const TrainResult resumed = run_training(second, "", ignore);
    EXPECT_EQ(resumed.hash, whole.hash) << "stopped after " << stop;
    EXPECT_EQ(resumed.train_loss, whole.train_loss);
    EXPECT_EQ(resumed.val_loss, whole.val_loss);
  }
}

TEST_P(TrainedRecipe, gives_the_same_hash_on_any_number_of_threads_and_every_level) {
  const Settings s = tiny(GetParam());
  const std::string hash = train_all(s).hash;
  for (const int threads : {1, 7}) EXPECT_EQ(train_all(s, "", threads).hash, hash) << threads << " threads";
  for (const simd::Level level : simd::available_levels()) {
    const auto backend = simd::make_backend(level, 2);
    Trainer trainer(*backend, s, load_recipe(s.recipe));
    EXPECT_EQ(run_training(trainer, "", ignore).hash, hash) << to_string(level);
    EXPECT_EQ(simd::last_level_run(), level);
  }
}

INSTANTIATE_TEST_SUITE_P(Builtin, TrainedRecipe, ::testing::ValuesIn(recipe_names()), [](const auto& row) {
  std::string name = row.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// What a change of a setting may show in.
struct Observed {
  std::string hash;
  double val_loss, train_loss;
  std::string metrics_keys;
  std::set<std::string> saves;
  friend bool operator==(const Observed&, const Observed&) = default;
};

Observed observe(Settings s) {
  const fp4sim::testing::TempFolder folder;
  const auto backend = simd::make_backend(2);
  Trainer trainer(*backend, s, load_recipe(s.recipe));
  Observed o;
  std::string last_checkpoint;
  const TrainResult r = run_training(trainer, folder.path(), [&](const StepReport& report) {
    if (report.val_loss) o.metrics_keys += std::to_string(report.step) + "=" + std::to_string(*report.val_loss) + " ";
    const std::string file = folder.path() + "/checkpoint.safetensors";
    if (std::filesystem::exists(file)) o.saves.insert(std::to_string(report.step));
  });
  o.hash = r.hash, o.val_loss = r.val_loss, o.train_loss = r.train_loss;
  return o;
}

struct Change {
  const char* setting;
  std::variant<const char*, int64_t, uint64_t, double, bool> value;
  void (*prepare)(Settings&) = [](Settings&) {};  // what must hold for the setting to count
};

void llama(Settings& s) { s.model.kind = "llama"; }

const Change kChanges[] = {
    {"recipe", "mxfp4-ste"},
    {"model", "llama"},
    {"layers", int64_t{2}},
    {"heads", int64_t{4}},
    {"kv-heads", int64_t{1}, llama},
    {"width", int64_t{64}},
    {"hidden", int64_t{64}},
    {"context", int64_t{16}},
    {"vocab", int64_t{300}},
    {"tied-head", true, llama},
    {"rope-style", "half", llama},
    {"rope-theta", 500.0, llama},
    {"norm-eps", 1e-2},
    {"data", FP4SIM_GOLDEN_DIR "/spec/README.md"},
    {"corpus-bytes", int64_t{4000}},
    {"val-fraction", 0.3},
    {"batch", int64_t{3}},
    {"micro-batches", int64_t{2}},
    {"steps", int64_t{5}},
    {"lr", 2e-3},
    {"schedule", "constant"},
    {"warmup", 0.5},
    {"weight-decay", 0.5},
    {"beta1", 0.5},
    {"beta2", 0.5},
    {"eps", 1e-3},
    {"clip", 0.1},
    {"eval-every", int64_t{2}},
    {"eval-batches", int64_t{1}, [](Settings& s) { s.eval_every = 2; }},
    {"save-every", int64_t{2}},
    {"seed", uint64_t{2}},
};

class EverySetting : public ::testing::TestWithParam<Change> {};

TEST_P(EverySetting, changes_the_result) {
  Settings s = tiny("fp32");
  GetParam().prepare(s);
  const Observed before = observe(s);
  for (const SettingRow& row : setting_rows(s)) {
    if (std::string(row.name) != GetParam().setting) continue;
    std::visit(
        [&](auto* to) {
          using T = std::remove_pointer_t<decltype(to)>;
          if constexpr (std::is_same_v<T, std::string>)
            *to = std::get<const char*>(GetParam().value);
          else
            *to = std::get<T>(GetParam().value);
        },
        row.value);
  }
  EXPECT_FALSE(observe(s) == before);
}

INSTANTIATE_TEST_SUITE_P(Table, EverySetting, ::testing::ValuesIn(kChanges), [](const auto& row) {
  std::string name = row.param.setting;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(EverySetting, has_a_row_in_the_table) {
  Settings s;
  std::set<std::string> tested;
  for (const Change& c : kChanges) tested.insert(c.setting);
  for (const SettingRow& row : setting_rows(s)) EXPECT_TRUE(tested.contains(row.name)) << row.name;
}

TEST(Trainer, stops_with_an_error_when_the_loss_is_not_finite) {
  const Settings s = tiny("fp4-dge-occ");
  const auto backend = simd::make_backend(2);
  Trainer trainer(*backend, s, load_recipe(s.recipe));
  TrainingState state = trainer.state();
  state.parameters.at("layers.0.attn.q.weight").as<float>()[3] = std::nanf("");
  trainer.restore(state);
  EXPECT_THROW(trainer.advance(), Error);
}

TEST(Trainer, refuses_a_checkpoint_of_another_run_by_name_of_what_differs) {
  const Settings s = tiny("fp32");
  const auto backend = simd::make_backend(2);
  Trainer trainer(*backend, s, load_recipe(s.recipe));
  const auto message = [&](void (*change)(TrainingState&)) {
    TrainingState state = trainer.state();
    change(state);
    try {
      trainer.restore(state);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message([](TrainingState& t) { t.seed = 9; }).find("seed 9"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.recipe = "x"; }).find("another recipe"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.step = 99; }).find("step 99"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.model.layers = 9; }).find("other sizes"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.numerics_version = 99; }).find("numerics_version 99"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.config += "x"; }).find("other settings"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.notes["data_sha256"] = "0"; }).find("data has changed"),
            std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.data_cursor = 1; }).find("data position"), std::string::npos);
  EXPECT_NE(message([](TrainingState& t) { t.states.clear(); }).find("adamw.m/"), std::string::npos);
}

TEST(Trainer, does_not_write_a_new_run_over_another) {
  const fp4sim::testing::TempFolder folder;
  const Settings s = tiny("fp32");
  train_all(s, folder.path());
  EXPECT_THROW(train_all(s, folder.path()), Error);
}

TEST(Trainer, the_last_line_of_the_metrics_has_the_final_validation_loss) {
  const fp4sim::testing::TempFolder folder;
  const TrainResult r = train_all(tiny("fp32"), folder.path());
  const std::string text = io::read_text_file(folder.path() + "/metrics.jsonl");
  const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  const size_t at = last.find("\"val_loss\":");
  ASSERT_NE(at, std::string::npos) << last;
  EXPECT_EQ(std::strtod(last.c_str() + at + 11, nullptr), r.val_loss);
}

TEST(Trainer, needs_no_validation_data_when_the_fraction_is_zero) {
  Settings s = tiny("fp32");
  s.val_fraction = 0;
  EXPECT_TRUE(std::isnan(train_all(s).val_loss));
  // Without an evaluation plan the run holds less; its parameters are those of the same data without a validation part.
  const auto backend = simd::make_backend(1);
  Trainer with(*backend, tiny("fp32"), load_recipe("fp32")), without(*backend, s, load_recipe("fp32"));
  EXPECT_LT(without.memory_bytes(), with.memory_bytes());
  EXPECT_TRUE(std::isnan(without.evaluate(0)));
}

TEST(Trainer, metrics_of_a_resumed_run_have_every_step_once) {
  Settings s = tiny("fp32");
  const fp4sim::testing::TempFolder folder;
  const auto backend = simd::make_backend(2);
  {
    Trainer first(*backend, s, load_recipe(s.recipe));
    s.schedule.steps = 6;
    run_training(first, folder.path(), ignore);
  }
  // As after a kill: metrics beyond the checkpoint exist already.
  Trainer second(*backend, s, load_recipe(s.recipe));
  Trainer third(*backend, s, load_recipe(s.recipe));
  second.advance(), second.advance();
  third.restore(second.state());
  run_training(third, folder.path(), ignore);
  const std::string text = io::read_text_file(folder.path() + "/metrics.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  for (int step = 1; step <= 6; ++step)
    EXPECT_NE(text.find("{\"step\":" + std::to_string(step) + ","), std::string::npos);
}

}  // namespace
}  // namespace fp4sim::train
