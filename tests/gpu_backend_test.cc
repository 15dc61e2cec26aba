// The cuda backend as a Backend: memory, errors, captured training steps, lockstep.
#include "fuzz/golden_training.h"
#include "fuzz/lockstep_backend.h"
#include "fuzz/mismatch.h"
#include "pch.h"
#include "reference/simd/backend.h"
#include "tests/gpu_device.h"
#include "tests/node_runner.h"

namespace fp4sim::fuzz {
namespace {

class GpuBackend : public test::NeedsDevice<> {};

TEST(GpuDevices, without_a_device_one_line_says_so) {
  const std::string reason = test::missing_device();
  if (reason.empty()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(reason.find("no CUDA device: "), 0u) << reason;
  EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  EXPECT_THROW(gpu::make_backend(), Error);
}

TEST_F(GpuBackend, lists_devices_that_can_be_opened) {
  const std::vector<gpu::DeviceInfo> list = gpu::devices();
  for (const gpu::DeviceInfo& d : list) {
    EXPECT_GT(d.memory_bytes, 0);
    EXPECT_EQ(gpu::make_backend({.device = d.index})->name(), "cuda");
  }
  EXPECT_THROW(gpu::make_backend({.device = static_cast<int>(list.size())}), Error);
  EXPECT_THROW(gpu::make_backend({.threads = 100}), Error);
}

TEST_F(GpuBackend, memory_is_zero_and_keeps_what_is_uploaded) {
  const auto backend = gpu::make_backend();
  constexpr int64_t kBytes = (3 << 20) + 5;  // beyond a staging slot
  const auto buffer = backend->allocate(kBytes);
  std::vector<uint8_t> bytes(kBytes, 1);
  backend->download({buffer.get(), 0, kBytes}, bytes.data(), kBytes);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), kBytes);
  for (int64_t i = 0; i < kBytes; ++i) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 7);
  backend->upload({buffer.get(), 0, kBytes}, bytes.data(), kBytes);
  std::vector<uint8_t> back(kBytes);
  backend->download({buffer.get(), 0, kBytes}, back.data(), kBytes);
  EXPECT_EQ(back, bytes);
  const std::vector<uint8_t> part = {9, 8, 7};
  for (int i = 0; i < 100; ++i) backend->upload({buffer.get(), 64 * i, 3}, part.data(), 3);  // the ring wraps
  backend->download({buffer.get(), 0, kBytes}, back.data(), kBytes);
  for (int i = 0; i < 100; ++i)
    for (int k = 0; k < 64; ++k) {
      const auto at = static_cast<size_t>(64 * i + k);
      ASSERT_EQ(back[at], k < 3 ? part[static_cast<size_t>(k)] : bytes[at]) << at;
    }
  EXPECT_THROW(backend->upload({buffer.get(), 0, 2}, part.data(), 3), Error);
}

TEST_F(GpuBackend, too_large_a_buffer_is_an_error_with_the_bytes_needed) {
  const auto backend = gpu::make_backend();
  constexpr int64_t kBytes = int64_t{1} << 50;
  try {
    backend->allocate(kBytes);
    FAIL() << "2^50 bytes were allocated";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("1125899906842624 bytes needed"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(backend->allocate(64));
}

TEST_F(GpuBackend, captured_training_gives_the_losses_and_parameters_of_simd) {
  for (const char* model : {"gpt", "llama"})
    for (const char* recipe : {"fp32", "bf16", "fp4-dge-occ", "mxfp4-ste"}) {
      const TrainingRun run{recipe, model, 5};
      const auto simd_backend = simd::make_backend(2);
      const TrainingTrace want = trace_training(*simd_backend, run);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const auto backend = gpu::make_backend();
        const TrainingTrace got = trace_training(*backend, run);
        EXPECT_EQ(got.losses, want.losses) << recipe << ' ' << model;
        EXPECT_EQ(got.hash, want.hash) << recipe << ' ' << model;
      }
    }
}

TEST_F(GpuBackend, a_planted_nan_passes_lockstep_and_a_planted_fault_does_not) {
  const auto pair = make_lockstep(simd::make_backend(2), gpu::make_backend(), {LockstepMode::chain, ""});
  std::vector<float> x(100, 1.5f);
  x[17] = std::bit_cast<float>(0xFFC12345u);  // payloads are free: canonical on both sides
  const std::vector<test::HostValue> y =
      test::run_node(*pair, Op::scale, {test::f32_value({100}, x)}, {{"factor", 2.0}});
  EXPECT_TRUE(std::isnan(test::floats(y[0])[17]));

  const auto simd_backend = simd::make_backend(2);
  const auto cuda = gpu::make_backend();
  const auto value = test::f32_value({100}, x);
  x[18] = 2.5f;
  const auto other = test::f32_value({100}, x);
  const auto digest = [&](Backend& backend, const test::HostValue& v) {
    const OwnedTensor owned = allocate_tensor(backend, v.type);
    test::upload_value(backend, v, owned.tensor);
    return backend.digest(owned.tensor);
  };
  EXPECT_EQ(digest(*simd_backend, value), digest(*cuda, value));
  EXPECT_NE(digest(*simd_backend, value), digest(*cuda, other));
}

}  // namespace
}  // namespace fp4sim::fuzz
