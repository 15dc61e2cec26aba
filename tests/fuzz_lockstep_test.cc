// LockstepBackend and case files: equal backends never differ, a planted difference is found and its case replays.
#include "fuzz/lockstep_backend.h"

#include <filesystem>

#include "fuzz/case_builder.h"
#include "fuzz/differential.h"
#include "fuzz/sabotaged_backend.h"
#include "pch.h"
#include "reference/scalar/backend.h"

namespace fp4sim::fuzz {
namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("fp4sim_" + name + ".case")).string();
}

std::unique_ptr<Backend> sabotaged_scalar(const std::string& mutant) {
  return make_sabotaged(scalar::make_backend(), mutant);
}

TEST(Lockstep, scalar_with_itself_never_differs_in_any_op) {
  for (const LockstepMode mode : {LockstepMode::chain, LockstepMode::isolate}) {
    const auto pair = make_lockstep(scalar::make_backend(), scalar::make_backend(), {mode, ""});
    EXPECT_EQ(pair->name(), "lockstep:scalar,scalar");
    const auto oracle = scalar::make_backend();
    for (int op = 0; op < kOpCount; ++op)
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const CaseParameters p = draw_case(static_cast<Op>(op), seed);
        SCOPED_TRACE(to_string(p));
        EXPECT_FALSE(run_differential(*pair, *oracle, build_case(p, *oracle)));
      }
  }
}

TEST(Lockstep, a_planted_difference_is_named_and_its_case_replays) {
  const std::string path = temporary("planted");
  const auto pair = make_lockstep(scalar::make_backend(), sabotaged_scalar("scale_plus_one"), {{}, path});
  const auto maker = scalar::make_backend();
  const CaseParameters p =
      parse_parameters("quantize dist=bell seed=3 axis=last batch=0 k=40 m=3 row_offset=0 spec=mxfp4");
  const Case c = build_case(p, *maker);
  try {
    (void)run_case(*pair, c);
    FAIL() << "the difference was not found";
  } catch (const MismatchError& e) {
    EXPECT_EQ(e.mismatch().op, Op::quantize);
    EXPECT_EQ(e.mismatch().node, "fuzz/quantize");
    EXPECT_EQ(e.mismatch().difference.part, "scales");
    EXPECT_EQ(e.mismatch().difference.element, 0);
    EXPECT_EQ(e.mismatch().difference.actual, e.mismatch().difference.expected + 1);
    EXPECT_EQ(e.mismatch().difference.count, 6);  // 3 rows of 2 blocks
    EXPECT_EQ(e.case_path(), path);
    EXPECT_NE(std::string(e.what()).find("f32(3, 40)"), std::string::npos) << e.what();
  }
  const Case loaded = load_case(path);
  const auto wrong = sabotaged_scalar("scale_plus_one");
  EXPECT_FALSE(replay_case(*maker, loaded));
  EXPECT_TRUE(replay_case(*wrong, loaded));
  std::filesystem::remove(path);
}

TEST(Lockstep, an_in_place_update_is_saved_before_it_runs) {
  const std::string path = temporary("adamw");
  const auto pair = make_lockstep(scalar::make_backend(), sabotaged_scalar("skip_ignored"), {{}, path});
  const auto maker = scalar::make_backend();
  Case c = build_case(parse_parameters("adamw dist=bell seed=1 beta1=0.9 beta2=0.95 eps=1e-8 n=20 weight_decay=0.1"),
                      *maker);
  c.inputs[4].data<StepInfo>()->skip = 1;
  c.inputs[4].data<StepInfo>()->lr = 0.01;
  EXPECT_THROW((void)run_case(*pair, c), MismatchError);
  const Case loaded = load_case(path);
  ASSERT_EQ(loaded.inputs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_FALSE(first_difference(c.inputs[i], loaded.inputs[i])) << i;
  EXPECT_FALSE(replay_case(*maker, loaded));
  std::filesystem::remove(path);
}

TEST(Lockstep, isolate_mode_stops_at_the_same_node_as_chain_mode) {
  const auto maker = scalar::make_backend();
  const Case c = build_case(parse_parameters("mean dist=cancelling seed=2 n=300"), *maker);
  for (const LockstepMode mode : {LockstepMode::chain, LockstepMode::isolate}) {
    const auto pair = make_lockstep(scalar::make_backend(), sabotaged_scalar("lane_tree_reversed"), {mode, ""});
    EXPECT_THROW((void)run_case(*pair, c), MismatchError);
  }
}

TEST(CaseFile, a_case_of_every_op_is_the_same_after_saving_and_loading) {
  const auto maker = scalar::make_backend();
  const std::string path = temporary("roundtrip");
  for (int op = 0; op < kOpCount; ++op) {
    Case c = build_case(draw_case(static_cast<Op>(op), 11), *maker);
    SCOPED_TRACE(describe(c));
    c.outputs = run_case(*maker, c);
    save_case(path, c);
    const Case loaded = load_case(path);
    EXPECT_EQ(loaded.op, c.op);
    EXPECT_EQ(loaded.name, c.name);
    EXPECT_EQ(loaded.attrs, c.attrs);
    EXPECT_EQ(loaded.origin, c.origin);
    ASSERT_EQ(loaded.inputs.size(), c.inputs.size());
    for (size_t i = 0; i < c.inputs.size(); ++i) EXPECT_EQ(loaded.inputs[i].parts, c.inputs[i].parts);
    EXPECT_FALSE(replay_case(*maker, loaded));
  }
  std::filesystem::remove(path);
}

TEST(HostValues, nan_payloads_are_equal_and_signed_zeros_are_not) {
  HostValue a = zero_value({DType::f32, {4}, {}, Axis::last}), b = a;
  const uint32_t bits_a[] = {0x7FC00000u, 0xFFC00001u, 0x3F800000u, 0x00000000u};
  const uint32_t bits_b[] = {0x7F800001u, 0x7FC00000u, 0x3F800000u, 0x80000000u};
  std::memcpy(a.parts[0].data(), bits_a, sizeof bits_a);
  std::memcpy(b.parts[0].data(), bits_b, sizeof bits_b);
  const std::optional<Difference> d = first_difference(a, b);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->element, 3);
  EXPECT_EQ(d->count, 1);
  EXPECT_EQ(d->actual, 0x80000000u);
  EXPECT_NE(digest_value(a), digest_value(b));
  b.data<uint32_t>()[3] = 0;
  EXPECT_FALSE(first_difference(a, b));
  EXPECT_EQ(digest_value(a), digest_value(b));
}

TEST(HostValues, csr_memory_behind_the_last_entry_is_free_and_padding_bits_of_codes_are_not) {
  const QuantSpec occ = parse_quant_spec("e2m1:row:fp32:rne+occ(0.9,fp32,row)");
  HostValue a = zero_value({DType::csr, {2, 40}, occ, Axis::last}), b = a;
  a.data<int64_t>(0)[1] = b.data<int64_t>(0)[1] = 1;
  a.data<int64_t>(0)[2] = b.data<int64_t>(0)[2] = 2;
  ASSERT_GT(csr_capacity(a.type), 2);
  b.data<int32_t>(1)[2] = 7;
  b.data<float>(2)[2] = 7;
  EXPECT_FALSE(first_difference(a, b));
  EXPECT_EQ(digest_value(a), digest_value(b));
  b.data<int32_t>(1)[1] = 7;
  ASSERT_TRUE(first_difference(a, b));
  EXPECT_NE(digest_value(a), digest_value(b));

  HostValue p = zero_value({DType::packed, {2, 3}, parse_quant_spec("mxfp4"), Axis::last}), q = p;
  q.data<uint8_t>()[3] = 0x50;  // row 1: the unused high nibble of its second byte
  const std::optional<Difference> d = first_difference(p, q);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->part, "codes");
  EXPECT_EQ(d->element, 1 * 3 + 3);
  EXPECT_EQ(d->actual, 5u);
}

}  // namespace
}  // namespace fp4sim::fuzz
