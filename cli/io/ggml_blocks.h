// ggml's block layouts of FP4 and ggml's own quantizer for them: the bytes of ggml's reference row quantizers, in
// binary32 operations without libm. This is another program's convention beside fp4sim's rules (numerics.md): no clause
// of it holds here but §2's E2M1 values.
//
//  mxfp4: 32 elements in 17 bytes: scale byte e (2^(e−127)), then 16 bytes, byte j with element j in the low nibble and
//         j + 16 in the high one.
//  nvfp4: 64 elements in 36 bytes: 4 scale bytes (UE4M3) of 16 elements each, then 32 bytes, byte 8g + j with elements
//         16g + j (low) and 16g + j + 8 (high). There is no tensor scale.
//
// Its conventions: an element takes the code, of 0 … 15 in this order, with the least |code·scale − x| in binary32, so
// that ties go to the lower magnitude, −0 (code 8) never occurs and NaN takes code 0; amax passes over NaN. mxfp4: e is
// floor(log2f(amax)) − 2 + 127 with log2f rounded to nearest, so that the last floats below a power of two count as
// that power. nvfp4: the scale is amax/6 in UE4M3, half an ulp rounded up.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/contract/quant_spec.h"

namespace fp4sim::io {

struct GgmlLayout {
  const char* name;        // "mxfp4"
  const char* nibbles;     // for the metadata
  int32_t block_elements;  // 32, 64
  int32_t block_bytes;     // 17, 36
  int32_t scales;          // scale bytes of a block, one for each block_elements/scales elements
};
inline constexpr GgmlLayout kGgmlLayouts[] = {
    {"mxfp4", "element j low, j+16 high", 32, 17, 1},
    {"nvfp4", "element j low, j+8 high", 64, 36, 4},
};

/// The layout of a spec: that of alias mxfp4 or nvfp4, nothing else. UsageError naming the two.
const GgmlLayout& ggml_layout(const QuantSpec& spec);
/// The spec a layout belongs to.
QuantSpec ggml_spec(const GgmlLayout& layout);

/// Writes the blocks of x; x.size() is a multiple of block_elements, blocks.size() that many blocks' bytes. Throws
/// Error for an infinite element in mxfp4, where ggml converts infinity to a byte, which C++ leaves undefined. An amax
/// below 2^-125, where ggml converts a negative number, takes e = 0.
void ggml_encode(const GgmlLayout& layout, std::span<const float> x, std::span<uint8_t> blocks);

/// The values of blocks: code·scale in binary32, code 8 being +0. Throws Error for a scale byte that is no scale: 255
/// in mxfp4, the sign bit in nvfp4 (0x7F decodes to 0, as ggml has it).
void ggml_decode(const GgmlLayout& layout, std::span<const uint8_t> blocks, std::span<float> x);

/// The code (0 … 15) of element i of a block.
uint32_t ggml_code(const GgmlLayout& layout, const uint8_t* block, int64_t i);

}  // namespace fp4sim::io
