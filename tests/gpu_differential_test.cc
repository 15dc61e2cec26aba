// Every op of the cuda backend against scalar on generated cases; invariance in launch shapes; equal digests.
#include "fuzz/differential.h"
#include "fuzz/host_value.h"
#include "pch.h"
#include "reference/scalar/backend.h"
#include "tests/differential_report.h"
#include "tests/gpu_device.h"

namespace fp4sim::fuzz {
namespace {

constexpr uint64_t kSeed = 20251129;
constexpr int64_t kCases = 60;

class GpuDifferential : public test::NeedsDevice<testing::TestWithParam<Op>> {};

TEST_P(GpuDifferential, gives_the_bits_of_scalar) {
  const auto oracle = scalar::make_backend();
  const auto tested = gpu::make_backend();
  DifferentialOptions options;
  options.op_glob = op_name(GetParam());
  options.seed = kSeed;
  options.iterations = kCases;
  const DifferentialReport report = fuzz_ops(*tested, *oracle, options);
  EXPECT_TRUE(report.ok()) << "seed " << kSeed << "\n" << test::failures_text(report);
}

TEST_P(GpuDifferential, results_do_not_depend_on_launch_shapes) {
  const auto maker = scalar::make_backend();
  const auto usual = gpu::make_backend();
  for (const int threads : {32, 96, 512}) {
    const auto other = gpu::make_backend({.device = 0, .threads = threads});
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const Case c = build_case(draw_case(GetParam(), seed), *maker);
      const std::optional<Mismatch> mismatch = run_differential(*other, *usual, c);
      EXPECT_FALSE(mismatch) << threads << " threads a block: " << to_string(*mismatch);
    }
  }
}

TEST_P(GpuDifferential, digests_are_those_of_the_bytes) {
  const auto maker = scalar::make_backend();
  const auto backend = gpu::make_backend();
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Case c = build_case(draw_case(GetParam(), seed), *maker);
    for (const HostValue& value : run_case(*maker, c))
      EXPECT_EQ(backend->digest(place_value(*backend, value).tensor), digest_value(value)) << describe(c);
  }
}

TEST_P(GpuDifferential, a_captured_node_gives_the_bits_of_a_single_one) {
  const auto maker = scalar::make_backend();
  const auto backend = gpu::make_backend();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Case c = build_case(draw_case(GetParam(), seed), *maker);
    const std::vector<HostValue> single = run_case(*backend, c);

    Graph graph;
    std::vector<OwnedTensor> owned;
    std::vector<Tensor> tensors;
    for (const HostValue& value : c.inputs) {
      graph.values.push_back({value.type, ValueKind::parameter, {}});
      owned.push_back(place_value(*backend, value));
      tensors.push_back(owned.back().tensor);
    }
    graph.nodes.push_back(node_of(c));
    if (c.op != Op::adamw)
      for (const ValueType& type : output_types(c)) {
        graph.values.push_back({type, ValueKind::temporary, {}});
        owned.push_back(allocate_tensor(*backend, type));
        tensors.push_back(owned.back().tensor);
      }
    const auto program = backend->compile({graph, tensors});
    program->run();
    if (c.op != Op::adamw) program->run();  // nothing may be left over from a run
    for (size_t o = 0; o < single.size(); ++o) {
      const Tensor& result = tensors[static_cast<size_t>(graph.nodes[0].outputs[o])];
      EXPECT_FALSE(first_difference(single[o], download_value(*backend, result))) << describe(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuDifferential, testing::ValuesIn(test::all_ops()),
                         [](const auto& row) { return std::string(op_name(row.param)); });

}  // namespace
}  // namespace fp4sim::fuzz
