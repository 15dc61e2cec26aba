// All 2^32 binary32 inputs through every built-in element format and scale format and through the ops that hold the
// elementary functions, on the cuda backend and on simd: digests of the results compared piece by piece. One line a
// check.
//   gpu_sweep_test [--backend cuda|scalar] [--first N] [--inputs N] [--threads N]
// Inputs are the bit patterns first … first + inputs − 1; both numbers are multiples of 2^18. Exit code 0: all equal,
// 1: a difference, 77: no device (1 under FP4SIM_REQUIRE_GPU=1).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/backend.h"
#include "reference/contract/digest.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"
#include "tests/gpu_device.h"

namespace fp4sim {
namespace {

constexpr int64_t kPiece = int64_t{1} << 18;  // inputs of one run: a piece and its results stay in a core's caches
constexpr int64_t kAllInputs = int64_t{1} << 32;
constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

// ---- what is computed ----

ValueType f32(Shape shape) { return {DType::f32, std::move(shape), {}, Axis::last}; }

/// A graph on x — kPiece inputs, each `copies` times in a row —, the constants beside it, and the values to compare.
struct Sweep {
  struct Constant {
    ValueId value;
    std::vector<uint8_t> bytes;
  };
  struct Check {
    std::string name;
    ValueId value;
  };
  Graph graph;
  const int64_t copies;
  const ValueId x;
  std::vector<Constant> constants;
  std::vector<Check> checks;

  explicit Sweep(Shape shape, int64_t copies_of_input = 1)
      : copies(copies_of_input), x(add_value(graph, f32(std::move(shape)), ValueKind::input, "x")) {}

  /// A value filled with copies of `element`.
  template <class T>
  ValueId constant(ValueType type, const T& element) {
    const auto count = static_cast<size_t>(type.dtype == DType::u8 ? 1 : element_count(type.shape));
    std::vector<uint8_t> bytes(count * sizeof(T));
    for (size_t i = 0; i < count; ++i) std::memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
    const std::string name = "constant" + std::to_string(constants.size());
    constants.push_back({add_value(graph, std::move(type), ValueKind::constant, name), std::move(bytes)});
    return constants.back().value;
  }
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add_node(graph, op, std::move(inputs), std::move(attrs)).front();
  }
  void check(std::string name, ValueId value) {
    checks.push_back({std::move(name), value});
    graph.results.push_back(value);
  }

  ValueId quantize(const std::string& spec, std::vector<ValueId> inputs, const char* axis = "last") {
    return node(Op::quantize, std::move(inputs),
                {{"spec", spec}, {"axis", std::string(axis)}, {"stream", int64_t{0}}, {"row_offset", int64_t{0}}});
  }
};

/// Every row of §2, nearest even, with its default policy; the FP8 formats with infinities or NaN under `ieee` too.
Sweep element_formats() {
  Sweep sweep({kPiece});
  for (const ElementFormatRow& row : kElementFormats) {
    std::vector<std::string> specs{std::string(row.name) + ":none:rne"};
    if (row.format.bits == 8 && row.format.specials != Specials::none) specs.push_back(specs[0] + "+ieee");
    for (const std::string& spec : specs) sweep.check(spec, sweep.quantize(spec, {sweep.x}));
  }
  return sweep;
}

constexpr float kTensorAmax = 3.7f;

/// Quantizes x by a spec and compares; a tensor amax is given where one is needed, the same for all pieces.
class ScaleChecks {
 public:
  explicit ScaleChecks(Sweep& sweep)
      : sweep_(sweep), step_(sweep.constant(step_type(), StepInfo{})), amax_(sweep.constant(f32({}), kTensorAmax)) {}

  void add(const std::string& what, const std::string& spec, const char* axis) {
    std::vector<ValueId> inputs{sweep_.x};
    if (needs_tensor_amax(parse_quant_spec(spec))) inputs.insert(inputs.end(), {step_, amax_});
    sweep_.check(spec + what, sweep_.quantize(spec, inputs, axis));
  }

 private:
  Sweep& sweep_;
  ValueId step_, amax_;
};

/// Every rule and scale format on blocks of one element, (1, n) along the first axis: the input is the amax, and the
/// scale follows from it.
Sweep scale_formats() {
  Sweep sweep({1, kPiece});
  ScaleChecks checks(sweep);
  for (const ScaleRuleRow& row : kScaleRules) {
    std::vector<const char*> scales{row.scale == ScaleFormat::e8m0   ? "e8m0"
                                    : row.scale == ScaleFormat::e4m3 ? "e4m3"
                                                                     : "fp32"};
    if (row.rule == ScaleRule::one || row.rule == ScaleRule::te) scales.push_back("ue5m3");
    for (const char* scale : scales) checks.add("", fmt::format("e2m1:b16:{}/{}:rne", scale, row.name), "first");
  }
  return sweep;
}

/// Whole blocks along the last axis, 16 copies of an input: the layout of a training step and its own kernels.
Sweep whole_blocks() {
  constexpr int64_t kCopies = 16, kRow = 4096;
  Sweep sweep({kCopies * kPiece / kRow, kRow}, kCopies);
  ScaleChecks checks(sweep);
  for (const char* spec : {"mxfp4", "nvfp4"}) checks.add(" of 16 copies", spec, "last");
  return sweep;
}

/// The functions of §8 where ops reach them most directly: exp64 in the activations and in soft, exp in the gradient
/// and log in the loss of rows of 0 and four inputs (those of one row lie far apart), exp64 of log64 in dge, tanh64 in
/// dsq.
Sweep elementary_functions() {
  constexpr int64_t kInRow = 4, kRows = kPiece / kInRow;
  Sweep sweep({kPiece});
  const ValueId x = sweep.x, ones = sweep.constant(f32({kPiece}), 1.0f);
  sweep.check("silu", sweep.node(Op::silu, {x}));
  sweep.check("silu_grad, dy = 1", sweep.node(Op::silu_grad, {ones, x}));
  sweep.check("gelu", sweep.node(Op::gelu, {x}));
  sweep.check("gelu_grad, dy = 1", sweep.node(Op::gelu_grad, {ones, x}));
  sweep.check("cast to bf16", sweep.node(Op::cast, {x}, {{"to", "bf16"}}));
  const ValueId columns = sweep.node(Op::concat, {sweep.constant(f32({kRows}), 0.0f), x});
  const ValueId rows = sweep.node(Op::permute, {columns},
                                  {{"view", fmt::format("{},{}", kInRow + 1, kRows)},
                                   {"perm", "1,0"},
                                   {"shape", fmt::format("{},{}", kRows, kInRow + 1)}});
  const ValueId first = sweep.constant({DType::i32, {kRows}, {}, Axis::last}, int32_t{0});
  const ValueId step = sweep.constant(step_type(), StepInfo{});
  sweep.check("cross_entropy", sweep.node(Op::cross_entropy, {rows, first}));
  sweep.check("cross_entropy_grad",
              sweep.node(Op::cross_entropy_grad, {rows, first, step}, {{"total_rows", int64_t{1}}}));
  for (const char* format : {"e2m1", "e4m3"}) {
    const ValueId q = sweep.quantize(std::string(format) + ":none:rne", {x});
    for (const char* estimator : {"dge(k=5,clip=3)", "dsq(alpha=0.2)", "ewgs(delta=0.1)"})
      sweep.check(fmt::format("estimator_grad {} {}, dy = 1", format, estimator),
                  sweep.node(Op::estimator_grad, {ones, x, q}, {{"estimator", estimator}}));
  }
  const ValueId q = sweep.quantize("e2m1:none:rne", {x});
  sweep.check("estimator_grad e2m1 soft(beta=20), dy = 1",
              sweep.node(Op::estimator_grad, {ones, x, q}, {{"estimator", "soft(beta=20)"}}));
  sweep.check("soft_forward e2m1 soft(beta=20)",
              sweep.node(Op::soft_forward, {x, q}, {{"estimator", "soft(beta=20,forward=soft)"}}));
  return sweep;
}

// ---- running it ----

/// A sweep's graph compiled on one backend.
class Side {
 public:
  Side(std::unique_ptr<Backend> backend, const Sweep& sweep) : backend_(std::move(backend)), sweep_(sweep) {
    for (const Value& value : sweep.graph.values) {
      owned_.push_back(allocate_tensor(*backend_, value.type));
      tensors_.push_back(owned_.back().tensor);
    }
    for (const Sweep::Constant& c : sweep.constants)
      backend_->upload(tensor(c.value).parts[0], c.bytes.data(), static_cast<int64_t>(c.bytes.size()));
    program_ = backend_->compile({sweep.graph, tensors_});
  }

  /// Digests of all checked values for these inputs.
  std::vector<uint64_t> digests(const std::vector<uint32_t>& inputs) {
    backend_->upload(tensor(sweep_.x).parts[0], inputs.data(), static_cast<int64_t>(4 * inputs.size()));
    program_->run();
    std::vector<uint64_t> all;
    for (const Sweep::Check& check : sweep_.checks) all.push_back(backend_->digest(tensor(check.value)));
    return all;
  }

  /// Component `part` of the last results of a check, NaN canonical in f32.
  std::vector<uint8_t> download(size_t check, size_t part) {
    const Tensor& from = tensor(sweep_.checks[check].value);
    std::vector<uint8_t> bytes(static_cast<size_t>(from.parts[part].bytes));
    backend_->download(from.parts[part], bytes.data(), from.parts[part].bytes);
    if (part_layouts(from.type)[part].dtype != DType::f32) return bytes;
    for (size_t i = 0; i < bytes.size(); i += 4) {
      uint32_t word;
      std::memcpy(&word, &bytes[i], 4);
      word = canonical_f32(word);
      std::memcpy(&bytes[i], &word, 4);
    }
    return bytes;
  }
  size_t parts(size_t check) const { return part_layouts(tensor(sweep_.checks[check].value).type).size(); }

 private:
  const Tensor& tensor(ValueId v) const { return tensors_[static_cast<size_t>(v)]; }

  std::unique_ptr<Backend> backend_;
  const Sweep& sweep_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<Program> program_;
};

/// What a check found: pieces with another digest, bytes that differ in them, and about which input the first such
/// byte belongs to (exactly where results lie in the order of the inputs).
struct Verdict {
  int64_t pieces = 0, bytes = 0;
  int64_t input = kAllInputs;
};

/// Adds the bytes in which two results of the piece that begins at input `first` differ.
void locate(Side& tested, Side& oracle, size_t check, int64_t first, Verdict& verdict) {
  ++verdict.pieces;
  for (size_t part = 0; part < tested.parts(check); ++part) {
    const std::vector<uint8_t> got = tested.download(check, part), want = oracle.download(check, part);
    const auto size = static_cast<int64_t>(got.size());
    for (int64_t i = 0; i < size; ++i) {
      if (got[static_cast<size_t>(i)] == want[static_cast<size_t>(i)]) continue;
      ++verdict.bytes;
      verdict.input = std::min(verdict.input, first + i * kPiece / size);
    }
  }
}

struct Options {
  std::string backend = "cuda";
  int64_t first = 0, inputs = kAllInputs;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

std::unique_ptr<Backend> tested_backend(const Options& options) {
  if (options.backend == "cuda") return gpu::make_backend();
  if (options.backend == "scalar") return scalar::make_backend();
  throw UsageError("--backend takes cuda or scalar, not " + options.backend);
}

/// One tested backend in turn for all threads, each of which has a simd backend of one thread: the work on the cores is
/// the larger part.
class Comparison {
 public:
  Comparison(const Sweep& sweep, const Options& options)
      : sweep_(sweep), options_(options), tested_(tested_backend(options), sweep), verdicts_(sweep.checks.size()) {}

  std::vector<Verdict> run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < options_.threads; ++t) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return verdicts_;
  }

 private:
  void work() {
    try {
      Side oracle(simd::make_backend(1), sweep_);
      std::vector<uint32_t> inputs(static_cast<size_t>(kPiece * sweep_.copies));
      for (int64_t at = next_++; at < options_.inputs / kPiece; at = next_++) {
        const int64_t first = options_.first + at * kPiece;
        for (int64_t i = 0; i < kPiece; ++i)
          std::fill_n(inputs.begin() + i * sweep_.copies, sweep_.copies, static_cast<uint32_t>(first + i));
        const std::vector<uint64_t> want = oracle.digests(inputs);
        const std::lock_guard<std::mutex> lock(mutex_);
        if (failure_) return;
        const std::vector<uint64_t> got = tested_.digests(inputs);
        for (size_t check = 0; check < got.size(); ++check)
          if (got[check] != want[check]) locate(tested_, oracle, check, first, verdicts_[check]);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  const Sweep& sweep_;
  const Options& options_;
  std::mutex mutex_;  // of everything below but next_
  Side tested_;
  std::vector<Verdict> verdicts_;
  std::exception_ptr failure_;
  std::atomic<int64_t> next_{0};
};

/// Runs a sweep and prints its checks; the number of those with differences.
int64_t report(const char* name, const Sweep& sweep, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Verdict> verdicts = Comparison(sweep, options).run();
  int64_t wrong = 0;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& v = verdicts[i];
    fmt::print(
        "{:<48} {} inputs, {} mismatches{}\n", sweep.checks[i].name, options.inputs, v.bytes,
        v.pieces == 0 ? "" : fmt::format(" (bytes, in {} pieces, the first near input {:08X})", v.pieces, v.input));
    wrong += v.pieces > 0;
  }
  fmt::print("{}: {} checks, {} with differences, {:.0f} s\n", name, verdicts.size(), wrong,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  std::fflush(stdout);
  return wrong;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw UsageError(name + " needs a value");
    const std::string value = argv[i + 1];
    const auto number = [&](int64_t least, int64_t most, int64_t unit) {
      char* end = nullptr;
      const int64_t n = std::strtoll(value.c_str(), &end, 0);
      if (value.empty() || *end != '\0' || n < least || n > most || n % unit != 0)
        throw UsageError(
            fmt::format("{} takes a multiple of {} from {} to {}, not {}", name, unit, least, most, value));
      return n;
    };
    if (name == "--backend")
      options.backend = value;
    else if (name == "--first")
      options.first = number(0, kAllInputs - kPiece, kPiece);
    else if (name == "--inputs")
      options.inputs = number(kPiece, kAllInputs, kPiece);
    else if (name == "--threads")
      options.threads = static_cast<int>(number(1, 1024, 1));
    else
      throw UsageError("unknown option " + name);
  }
  options.inputs = std::min(options.inputs, kAllInputs - options.first);
  return options;
}

int run(const Options& options) {
  const std::string missing = options.backend == "cuda" ? test::missing_device() : "";
  if (!missing.empty()) {
    const char* required = std::getenv("FP4SIM_REQUIRE_GPU");
    fmt::print(stderr, "gpu_sweep_test: {}\n", missing);
    return required != nullptr && std::string(required) == "1" ? 1 : kSkipped;
  }
  const int64_t wrong =
      report("element formats", element_formats(), options) + report("scale formats", scale_formats(), options) +
      report("whole blocks", whole_blocks(), options) + report("elementary functions", elementary_functions(), options);
  return wrong > 0 ? 1 : 0;
}

}  // namespace
}  // namespace fp4sim

int main(int argc, char** argv) {
  try {
    return fp4sim::run(fp4sim::parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_sweep_test: {}\n", e.what());
    return 1;
  }
}
