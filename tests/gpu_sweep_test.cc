// All 2^32 binary32 inputs through the groups of gpu_sweep.h and the elementary functions by themselves, on the cuda
// backend and on simd (tanh64, which simd has inline only: scalar): digests of the results compared piece by piece. One
// line a check.
//   gpu_sweep_test [--group NAME] [--backend cuda|scalar] [--first N] [--inputs N] [--threads N]
// Inputs are the bit patterns first … first + inputs − 1; both numbers are multiples of 2^18. Exit code 0: all equal,
// 1: a difference, 77: no device (1 under FP4SIM_REQUIRE_GPU=1).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/backend.h"
#include "reference/contract/digest.h"
#include "reference/contract/error.h"
#include "reference/scalar/backend.h"
#include "reference/scalar/elementary.h"
#include "reference/simd/backend.h"
#include "reference/simd/kernels_elementary.h"
#include "tests/gpu_device.h"
#include "tests/gpu_sweep.h"
#include "tests/gpu_sweep_functions.h"

namespace fp4sim::test {
namespace {

constexpr int64_t kAllInputs = int64_t{1} << 32;
constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

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

/// What a check found: pieces with another digest, bytes (of functions: results) that differ in them, and about which
/// input the first such byte belongs to (exactly where results lie in the order of the inputs).
struct Verdict {
  int64_t pieces = 0, differences = 0;
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
      ++verdict.differences;
      verdict.input = std::min(verdict.input, first + i * kPiece / size);
    }
  }
}

struct Options {
  std::string group, backend = "cuda";
  int64_t first = 0, inputs = kAllInputs;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

std::unique_ptr<Backend> tested_backend(const Options& options) {
  if (options.backend == "cuda") return gpu::make_backend();
  if (options.backend == "scalar") return scalar::make_backend();
  throw UsageError("--backend takes cuda or scalar, not " + options.backend);
}

/// Runs `work` with the first input of every piece on all threads; an error of one is thrown when all have ended.
void for_all_pieces(const Options& options, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t)
    threads.emplace_back([&] {
      try {
        for (int64_t at = next++; at < options.inputs / kPiece; at = next++) work(options.first + at * kPiece);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failure = std::current_exception();
        next = options.inputs / kPiece;
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// One tested backend in turn for all threads, each of which has a simd backend of one thread: the work on the cores is
/// the larger part.
std::vector<Verdict> compare_graphs(const Sweep& sweep, const Options& options) {
  Side tested(tested_backend(options), sweep);
  std::mutex mutex;  // of the tested side and the verdicts
  std::vector<Verdict> verdicts(sweep.checks.size());
  for_all_pieces(options, [&](int64_t first) {
    thread_local std::unique_ptr<Side> oracle;
    thread_local std::vector<uint32_t> inputs;
    if (oracle == nullptr) {
      oracle = std::make_unique<Side>(simd::make_backend(1), sweep);
      inputs.resize(static_cast<size_t>(kPiece * sweep.copies));
    }
    for (int64_t i = 0; i < kPiece; ++i)
      std::fill_n(inputs.begin() + i * sweep.copies, sweep.copies, static_cast<uint32_t>(first + i));
    const std::vector<uint64_t> want = oracle->digests(inputs);
    const std::lock_guard<std::mutex> lock(mutex);
    const std::vector<uint64_t> got = tested.digests(inputs);
    for (size_t check = 0; check < got.size(); ++check)
      if (got[check] != want[check]) locate(tested, *oracle, check, first, verdicts[check]);
  });
  return verdicts;
}

/// The bits of a function's results on simd for kPiece inputs from `first` on, NaN canonical.
std::vector<uint64_t> host_values(Function f, uint32_t first) {
  static const simd::ElementaryKernels& kernels = simd::pick_elementary_kernels(simd::available_levels().back());
  std::vector<float> x(kPiece), y(kPiece);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(first + static_cast<uint32_t>(i));
  std::vector<double> wide(x.begin(), x.end()), wide_y(kPiece);
  std::vector<uint64_t> values(kPiece);
  switch (f) {
    case Function::exp64: kernels.exp64(wide.data(), wide_y.data(), kPiece); break;
    case Function::log64: kernels.log64(wide.data(), wide_y.data(), kPiece); break;
    case Function::tanh64: std::transform(wide.begin(), wide.end(), wide_y.begin(), scalar::tanh64); break;
    case Function::exp_f32: kernels.exp_f32(x.data(), y.data(), kPiece); break;
    case Function::log_f32: kernels.log_f32(x.data(), y.data(), kPiece); break;
  }
  const bool narrow = f == Function::exp_f32 || f == Function::log_f32;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = narrow                  ? canonical_f32(std::bit_cast<uint32_t>(y[i]))
                : std::isnan(wide_y[i]) ? 0x7FF8000000000000ull
                                        : std::bit_cast<uint64_t>(wide_y[i]);
  return values;
}

/// Every elementary function by itself.
std::vector<Verdict> compare_functions(const Options& options) {
  if (options.backend != "cuda") throw UsageError("the group functions takes --backend cuda only");
  std::mutex mutex;
  std::vector<Verdict> verdicts(std::size(kFunctions));
  for_all_pieces(options, [&](int64_t first) {
    for (size_t f = 0; f < verdicts.size(); ++f) {
      const auto start = static_cast<uint32_t>(first);
      const std::vector<uint64_t> want = host_values(kFunctions[f], start);
      uint64_t sum = 0;
      for (size_t i = 0; i < want.size(); ++i) sum += mixed(want[i], start + i);
      if (sum == device_sum(kFunctions[f], start, kPiece)) continue;
      const std::vector<uint64_t> got = device_values(kFunctions[f], start, kPiece);
      const std::lock_guard<std::mutex> lock(mutex);
      ++verdicts[f].pieces;
      for (size_t i = 0; i < want.size(); ++i) {
        if (got[i] == want[i]) continue;
        ++verdicts[f].differences;
        verdicts[f].input = std::min(verdicts[f].input, first + static_cast<int64_t>(i));
      }
    }
  });
  return verdicts;
}

/// Prints the checks of a group; the number of those with differences.
int64_t report(const std::string& group, const std::vector<std::string>& names, const std::vector<Verdict>& verdicts,
               const Options& options, double seconds) {
  int64_t wrong = 0;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& v = verdicts[i];
    fmt::print("{:<48} {} inputs, {} mismatches{}\n", names[i], options.inputs, v.differences,
               v.pieces == 0 ? "" : fmt::format(" (in {} pieces, the first near input {:08X})", v.pieces, v.input));
    wrong += v.pieces > 0;
  }
  fmt::print("{}: {} checks, {} with differences, {:.0f} s\n", group, verdicts.size(), wrong, seconds);
  std::fflush(stdout);
  return wrong;
}

constexpr const char* kFunctionGroup = "functions";

/// Runs a group and prints its checks; the number of those with differences.
int64_t run_group(const std::string& group, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  if (group == kFunctionGroup) {
    const std::vector<Verdict> verdicts = compare_functions(options);
    return report(group, {std::begin(kFunctionNames), std::end(kFunctionNames)}, verdicts, options, seconds());
  }
  for (const SweepGroup& g : sweep_groups()) {
    if (g.name != group) continue;
    const Sweep sweep = g.make();
    const std::vector<Verdict> verdicts = compare_graphs(sweep, options);
    std::vector<std::string> names;
    for (const Sweep::Check& check : sweep.checks) names.push_back(check.name);
    return report(group, names, verdicts, options, seconds());
  }
  throw UsageError("no group " + group);
}

std::vector<std::string> groups_of(const Options& options) {
  if (!options.group.empty()) return {options.group};
  std::vector<std::string> all;
  for (const SweepGroup& group : sweep_groups()) all.push_back(group.name);
  if (options.backend == "cuda") all.push_back(kFunctionGroup);
  return all;
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
    if (name == "--group")
      options.group = value;
    else if (name == "--backend")
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
  const std::string missing = options.backend == "cuda" ? missing_device() : "";
  if (!missing.empty()) {
    const char* required = std::getenv("FP4SIM_REQUIRE_GPU");
    fmt::print(stderr, "gpu_sweep_test: {}\n", missing);
    return required != nullptr && std::string(required) == "1" ? 1 : kSkipped;
  }
  int64_t wrong = 0;
  for (const std::string& group : groups_of(options)) wrong += run_group(group, options);
  return wrong > 0 ? 1 : 0;
}

}  // namespace
}  // namespace fp4sim::test

int main(int argc, char** argv) {
  try {
    return fp4sim::test::run(fp4sim::test::parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_sweep_test: {}\n", e.what());
    return 1;
  }
}
