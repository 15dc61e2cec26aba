// Value types of the quantization ops: parts of a packed value, the optional inputs of quantize, what soft_forward and
// the estimators take.
#include "reference/contract/error.h"
#include "reference/contract/graph.h"
#include "reference/contract/step_info.h"
#include "tests/pch.h"

namespace fp4sim {
namespace {

const ValueType kMatrix{DType::f32, {4, 32}, {}, Axis::last}, kScalar{DType::f32, {}, {}, Axis::last};

ValueType packed(const std::string& spec) { return {DType::packed, {4, 32}, parse_quant_spec(spec), Axis::last}; }

std::vector<std::string> part_names(const std::string& spec) {
  std::vector<std::string> names;
  for (const PartLayout& part : part_layouts(packed(spec))) names.emplace_back(part.name);
  return names;
}

TEST(PackedParts, are_codes_scales_tensor_scale_or_codes_and_bias) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(part_names("e2m1:none"), (Names{"codes"}));
  EXPECT_EQ(part_names("mxfp4"), (Names{"codes", "scales"}));
  EXPECT_EQ(part_names("e2m1:b16:e4m3/one"), (Names{"codes", "scales"}));
  for (const char* rule : {"te", "exact", "torchao", "modelopt", "fouroversix", "4over6(mse)", "4over6(mae)"})
    EXPECT_EQ(part_names("e2m1:b16:e4m3/" + std::string(rule)), (Names{"codes", "scales", "tensor_scale"})) << rule;
  EXPECT_EQ(part_names("e2m1bautof:none"), (Names{"codes", "bias"}));
  const PartLayout bias = part_layouts(packed("e2m1bautof:none"))[1];
  EXPECT_EQ(bias.dtype, DType::i32);
  EXPECT_EQ(bias.bytes, 4);
}

TEST(PackedParts, have_one_scale_a_block_tile_vector_or_tensor) {
  const auto scales = [](const std::string& spec, Axis axis, const Shape& shape) {
    return part_layouts({DType::packed, shape, parse_quant_spec(spec), axis})[1].bytes;
  };
  const Shape shape{3, 50, 70};
  EXPECT_EQ(scales("mxfp4", Axis::last, shape), 3 * 50 * 3);
  EXPECT_EQ(scales("mxfp4", Axis::first, shape), 3 * 2 * 70);
  EXPECT_EQ(scales("e2m1:2d32:e8m0", Axis::last, shape), 3 * 2 * 3);  // tiles never cross matrices
  EXPECT_EQ(scales("e2m1:2d32:e8m0", Axis::first, shape), 3 * 2 * 3);
  EXPECT_EQ(scales("e2m1:row:fp32", Axis::last, shape), 3 * 50 * 4);
  EXPECT_EQ(scales("e2m1:col:fp32", Axis::last, shape), 3 * 70 * 4);
  EXPECT_EQ(scales("e2m1:row:fp32", Axis::first, shape), 3 * 70 * 4);
  EXPECT_EQ(scales("e2m1:col:fp32", Axis::first, shape), 3 * 50 * 4);
  EXPECT_EQ(scales("e2m1:tensor:fp32", Axis::last, shape), 4);
}

TEST(QuantizeTypes, take_a_tensor_amax_where_the_spec_has_one_and_only_with_a_step) {
  const auto quantize = [](const std::string& spec, std::vector<ValueType> inputs) {
    Attrs attrs{{"spec", spec}, {"axis", "last"}};
    attrs.set("stream", int64_t{1});
    attrs.set("row_offset", int64_t{0});
    return infer_types(Op::quantize, inputs, attrs);
  };
  for (const char* spec : {"nvfp4", "nvfp4:sr32", "e2m1:tensor:fp32", "e2m1:tensor:e8m0", "e5m2bautof:none"})
    EXPECT_EQ(quantize(spec, {kMatrix, step_type(), kScalar})[0], packed(spec)) << spec;
  EXPECT_EQ(quantize("nvfp4", {kMatrix})[0], packed("nvfp4"));
  EXPECT_EQ(quantize("nvfp4:sr8", {kMatrix, step_type()})[0], packed("nvfp4:sr8"));
  EXPECT_THROW(quantize("nvfp4", {kMatrix, step_type()}), Error);
  EXPECT_THROW(quantize("nvfp4:sr8", {kMatrix}), Error);
  EXPECT_THROW(quantize("nvfp4", {kMatrix, step_type(), kMatrix}), Error);
  EXPECT_THROW(quantize("nvfp4", {kMatrix, kScalar, kScalar}), Error);
  for (const char* spec : {"mxfp4", "e2m1:b16:e4m3/one", "e2m1:row:fp32", "e2m1:none", "bf16"})
    EXPECT_THROW(quantize(spec, {kMatrix, step_type(), kScalar}), Error) << spec;
}

TEST(SoftForwardTypes, need_a_soft_estimator_and_an_element_of_at_most_8_bits) {
  const auto soft = [](const ValueType& q, const char* estimator) {
    return infer_types(Op::soft_forward, {kMatrix, q}, Attrs{{"estimator", estimator}});
  };
  EXPECT_EQ(soft(packed("mxfp4"), "soft(20,forward=soft)")[0], kMatrix);
  EXPECT_EQ(soft(packed("int8:2d32:fp32"), "soft(20,forward=soft)")[0], kMatrix);
  EXPECT_THROW(soft(packed("mxfp4"), "soft(20)"), Error);
  EXPECT_THROW(soft(packed("mxfp4"), "ste"), Error);
  EXPECT_THROW(soft(packed("bf16"), "soft(20,forward=soft)"), Error);
  EXPECT_THROW(soft(kMatrix, "soft(20,forward=soft)"), Error);
}

TEST(EstimatorGradTypes, take_every_estimator_up_to_8_bits_and_ste_beyond) {
  const auto gradient = [](const ValueType& q, const char* estimator) {
    return infer_types(Op::estimator_grad, {kMatrix, kMatrix, q}, Attrs{{"estimator", estimator}});
  };
  for (const char* estimator : {"ste", "ste_clip", "dge", "soft(9)", "dsq(0.2)", "ewgs(0.1)", "quest"}) {
    EXPECT_EQ(gradient(packed("mxint8"), estimator)[0], kMatrix) << estimator;
    if (std::string(estimator) != "ste") {
      EXPECT_THROW(gradient(packed("fp16"), estimator), Error) << estimator;
    }
  }
  EXPECT_EQ(gradient(packed("bf16"), "ste")[0], kMatrix);
}

}  // namespace
}  // namespace fp4sim
