// Sums of 64-bit integers that wrap: any order of the atomic additions gives the same word.
#include "gpu/digest.h"

#include "reference/contract/digest.h"

namespace fp4sim::gpu {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
constexpr int kBlocksPerMultiprocessor = 8;

__device__ uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Bits of an element with NaN canonical; codes, integers and row_ptr as they are.
struct F32Bits {
  using Word = uint32_t;
  __device__ uint64_t operator()(uint32_t bits) const { return canonical_f32(bits); }
};
struct Bf16Bits {
  using Word = uint16_t;
  __device__ uint64_t operator()(uint16_t bits) const { return (bits & 0x7FFFu) > 0x7F80u ? 0x7FC0u : bits; }
};
template <class T>
struct PlainBits {
  using Word = T;
  __device__ uint64_t operator()(T bits) const { return bits; }
};

/// Adds the component's part of the digest. `used`: where the number of elements in use is data (csr), else null.
template <class Bits>
__global__ void sum_component(const typename Bits::Word* data, int64_t count, const int64_t* used, int index,
                              unsigned long long* sum) {
  if (used != nullptr) count = *used;
  const Bits bits;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  uint64_t mine = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint64_t position = static_cast<uint64_t>(i + 1) + (static_cast<uint64_t>(index) << 48);
    mine += mix(bits(data[i]) + position * kGolden);
  }
  for (int h = 16; h > 0; h /= 2) mine += __shfl_down_sync(0xFFFFFFFFu, mine, h);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, static_cast<unsigned long long>(mine));
}

template <class Bits>
void add_component(const std::byte* data, int64_t bytes, const int64_t* used, int index, uint64_t* sum,
                   Context& context) {
  const int64_t count = bytes / static_cast<int64_t>(sizeof(typename Bits::Word));
  Grid grid = context.per_item(count);
  grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(kBlocksPerMultiprocessor * context.multiprocessors()));
  context.launch(sum_component<Bits>, grid, reinterpret_cast<const typename Bits::Word*>(data), count, used, index,
                 reinterpret_cast<unsigned long long*>(sum));
}

}  // namespace

void add_digest(const Tensor& tensor, uint64_t* sum, Context& context) {
  const int64_t* entries = nullptr;
  int index = 0;
  for (const PartLayout& part : part_layouts(tensor.type)) {
    const std::byte* data = device_data(tensor.parts[index]);
    const bool csr = tensor.type.dtype == DType::csr;
    const int64_t* used = csr && (index == 1 || index == 2) ? entries : nullptr;
    if (csr && index == 0) {
      entries = reinterpret_cast<const int64_t*>(data) + (part.bytes / 8 - 1);
      add_component<PlainBits<uint64_t>>(data, part.bytes, used, index, sum, context);
    } else if (part.dtype == DType::f32) {
      add_component<F32Bits>(data, part.bytes, used, index, sum, context);
    } else if (part.dtype == DType::bf16) {
      add_component<Bf16Bits>(data, part.bytes, used, index, sum, context);
    } else if (part.dtype == DType::u8) {
      add_component<PlainBits<uint8_t>>(data, part.bytes, used, index, sum, context);
    } else {
      add_component<PlainBits<uint32_t>>(data, part.bytes, used, index, sum, context);
    }
    ++index;
  }
}

}  // namespace fp4sim::gpu
