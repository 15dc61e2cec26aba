// Quantization to mxfp4 with E2M1 codes from a table in memory beside the arithmetic that the backend uses: the same
// kernel but for its encoder, microseconds for 16384 × 16384 elements and their ratio. Exit code 1 if the codes differ.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "gpu/block_rows.cuh"

namespace fp4sim::gpu {
namespace {

constexpr int64_t kElements = int64_t{16384} * 16384;
constexpr int64_t kFresh = int64_t{1} << 20;  // random elements; then they repeat
constexpr int kRuns = 15;

/// Cells of the table: 1/4 … 8 in quarters of binades, where every midpoint of e2m1 is the edge of a cell; an even cell
/// is the edge alone, the odd one what lies above it.
constexpr int kFirstCell = 0x3E800000 >> 21, kCells = 64;

/// E2M1 codes from a table with a byte for each cell.
struct E2m1Table {
  const uint8_t* table;
  __device__ const E2m1Table& ready() const { return *this; }
  __device__ int bits() const { return 4; }
  __device__ uint32_t code(float y) const {
    const auto magnitude = static_cast<int>(magnitude_bits(y));
    const int cell = 2 * ((magnitude >> 21) - kFirstCell) + ((magnitude & 0x1FFFFF) != 0 ? 1 : 0);
    return __ldg(table + min(max(cell, 0), kCells - 1)) | (bits_of(y) >> 28 & 8u);
  }
  __device__ uint32_t four(const float (&y)[4], int64_t) const {
    return code(y[0]) | code(y[1]) << 4 | code(y[2]) << 8 | code(y[3]) << 12;
  }
};

std::vector<uint8_t> table_of_codes() {
  const ShortCodec codec = short_codec_of({kE2m1, Rounding::rne, false});
  std::vector<uint8_t> table;
  for (int cell = 0; cell < kCells; ++cell) {
    const uint32_t edge = static_cast<uint32_t>(kFirstCell + cell / 2) << 21;
    table.push_back(static_cast<uint8_t>(encode_short_rne(float_of(edge + (cell % 2 != 0 ? 1u : 0u)), codec)));
  }
  return table;
}

template <class T>
T* on_device(int64_t count) {
  void* p = nullptr;
  FP4SIM_CUDA_CALL(cudaMalloc(&p, static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(p);
}

/// Median microseconds of one launch.
template <class Encoder>
float median_us(const float* x, const Encoder& encoder, uint8_t* codes, uint8_t* scales) {
  const ScaleMaker maker = scale_maker_of(quantizer_of(parse_quant_spec("mxfp4")));
  constexpr int64_t kGroups = kElements / kGroup;
  Context context(nullptr, 0, kBlockRowThreads, false);
  cudaEvent_t begin, end;
  FP4SIM_CUDA_CALL(cudaEventCreate(&begin));
  FP4SIM_CUDA_CALL(cudaEventCreate(&end));
  std::vector<float> us;
  for (int run = 0; run <= kRuns; ++run) {
    FP4SIM_CUDA_CALL(cudaEventRecord(begin));
    context.launch(quantize_block_rows<false, Encoder>, block_row_grid(kGroups), x, kGroups, 4, maker, TensorPart{},
                   encoder, codes, scales);
    FP4SIM_CUDA_CALL(cudaEventRecord(end));
    FP4SIM_CUDA_CALL(cudaEventSynchronize(end));
    float ms = 0;
    FP4SIM_CUDA_CALL(cudaEventElapsedTime(&ms, begin, end));
    if (run > 0) us.push_back(1000 * ms);  // the first loads the code
  }
  std::nth_element(us.begin(), us.begin() + kRuns / 2, us.end());
  return us[kRuns / 2];
}

int run() {
  auto* x = on_device<float>(kElements);
  auto *codes = on_device<uint8_t>(kElements / 2), *scales = on_device<uint8_t>(kElements / 32);
  std::vector<float> fresh(kFresh);
  uint32_t state = 1;
  for (float& v : fresh) {
    state = state * 1664525u + 1013904223u;
    v = (static_cast<float>((state >> 8 & 255u) + (state >> 16 & 255u) + (state >> 24)) - 382.5f) * 0x1p-7f;
  }
  for (int64_t i = 0; i < kElements; i += kFresh)
    FP4SIM_CUDA_CALL(cudaMemcpy(x + i, fresh.data(), kFresh * 4, cudaMemcpyHostToDevice));
  const std::vector<uint8_t> table = table_of_codes();
  auto* on_card = on_device<uint8_t>(kCells);
  FP4SIM_CUDA_CALL(cudaMemcpy(on_card, table.data(), kCells, cudaMemcpyHostToDevice));

  std::vector<uint8_t> expected(kFresh / 2), looked_up(kFresh / 2);
  const float arithmetic = median_us(x, E2m1Nearest{}, codes, scales);
  FP4SIM_CUDA_CALL(cudaMemcpy(expected.data(), codes, expected.size(), cudaMemcpyDeviceToHost));
  const float lookup = median_us(x, E2m1Table{on_card}, codes, scales);
  FP4SIM_CUDA_CALL(cudaMemcpy(looked_up.data(), codes, looked_up.size(), cudaMemcpyDeviceToHost));
  std::printf("quantize mxfp4 last (16384, 16384): arithmetic %.2f us, table %.2f us, ratio %.3f, codes %s\n",
              static_cast<double>(arithmetic), static_cast<double>(lookup), static_cast<double>(lookup / arithmetic),
              expected == looked_up ? "equal" : "DIFFER");
  return expected == looked_up ? 0 : 1;
}

}  // namespace
}  // namespace fp4sim::gpu

int main() {
  try {
    return fp4sim::gpu::run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_lut_bench: %s\n", e.what());
    return 1;
  }
}
