// Quantizes one block with an installed fp4sim on both backends and compares the bits; reads a recipe, hashes a text.
// Exit code 0 if all is as it should be.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/io/sha256.h"
#include "cli/train/recipe.h"
#include "reference/contract/backend.h"
#include "reference/contract/graph.h"
#include "reference/scalar/backend.h"
#include "reference/simd/backend.h"

using namespace fp4sim;

namespace {

/// The dequantized values of x, a row of 32, under mxfp4.
std::vector<float> quantize_dequantize(Backend& backend, const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  Graph graph;
  const ValueId in = add_value(graph, {DType::f32, {1, count}, {}, Axis::last}, ValueKind::input, "x");
  const Attrs attrs{{"spec", std::string("mxfp4")}, {"axis", std::string("last")}};
  const ValueId packed = add_node(graph, Op::quantize, {in}, attrs, "x/fprop")[0];
  const ValueId out = add_node(graph, Op::dequantize, {packed}, {}, "x/decoded")[0];
  graph.results = {out};
  validate(graph);

  std::vector<OwnedTensor> owned;
  std::vector<Tensor> tensors;
  for (const Value& value : graph.values) {
    owned.push_back(allocate_tensor(backend, value.type));
    tensors.push_back(owned.back().tensor);
  }
  backend.upload(tensors[static_cast<size_t>(in)].parts[0], x.data(), count * 4);
  backend.compile({graph, tensors})->run();
  std::vector<float> y(x.size());
  backend.synchronize();
  backend.download(tensors[static_cast<size_t>(out)].parts[0], y.data(), count * 4);
  return y;
}

}  // namespace

int main() {
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25f * static_cast<float>(i) - 3.0f;
  const std::vector<float> scalar = quantize_dequantize(*scalar::make_backend(), x);
  const std::vector<float> simd = quantize_dequantize(*simd::make_backend(), x);
  const train::Recipe recipe = train::load_recipe("mxfp4-ste");
  const std::string hash = io::sha256_hex("abc");
  std::printf("x[1] = %g -> %g, recipe %s, hash %.8s\n", x[1], scalar[1], recipe.name.c_str(), hash.c_str());
  const bool ok = scalar == simd && scalar[1] == -3.0f && recipe.name == "mxfp4-ste" && hash.starts_with("ba7816bf");
  return ok ? 0 : 1;
}
