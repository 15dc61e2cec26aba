// Fused quantization of blocks along the rows.
#include "gpu/block_rows.cuh"

namespace fp4sim::gpu {

bool fused_blocks_take(const ValueType& packed, uint64_t first_element) {
  return is_fused_block(packed.spec, first_element) && packed.axis == Axis::last &&
         matrix_view(packed.shape).cols % packed.spec.block_size == 0;
}

void fused_blocks(const QuantizeCall& call, Context& context) {
  const Layout& l = call.q.layout;
  const int64_t groups = l.elements() / kGroup;
  with_encoder(call, [&](const auto& encoder) {
    using Encoder = std::decay_t<decltype(encoder)>;
    const auto kernel =
        call.q.tensor_scale != nullptr ? quantize_block_rows<true, Encoder> : quantize_block_rows<false, Encoder>;
    context.launch(kernel, block_row_grid(groups), call.x, groups, static_cast<int>(l.col_step) / kGroup,
                   scale_maker_of(call.q.quantizer), tensor_part(call), encoder, codes_of(call),
                   scales_of<uint8_t>(call));
  });
}

}  // namespace fp4sim::gpu
