// The list of golden cases: templates of case parameters times distributions.
#include "fuzz/golden.h"

namespace fp4sim::fuzz {
namespace {

constexpr const char* kSpecs[] = {
    "mxfp4",
    "nvfp4",
    "mxfp6e2m3",
    "mxfp6e3m2",
    "mxfp8e4m3",
    "mxfp8e5m2",
    "e2m1:b32:e8m0/ceil:rna",
    "e2m1:b64:e8m0/even:rnz",
    "e2m1:b128:e8m0/rceil:rtz",
    "e2m1:b16:e8m0/floor:sr32",
    "e2m1:b16:e4m3/te:sr32",
    "e2m1:b32:e4m3/one:rne",
    "e2m1:row:fp32/amax:rne",
    "e2m1:row:fp32/pow2:rnu",
    "e4m3:row:fp32/amax:rne",
    "e4m3:tensor:fp32/amax:rne",
    "e5m2:tensor:fp32/amax:sr32",
    "e2m1:tensor:e4m3/te:rne",
    "e5m2:b32:e8m0/floor:rtp+ieee",
    "e2m1:none:rtn",
    "bf16",
    "bf16:none:sr32",
    "fp16:none:rne+ieee",
};

/// Rows of numerics.md §2–§4 beyond the recipes above: every element format, scale rule, granularity and rounding is in
/// one of the two lists (a test says so).
constexpr const char* kFormatSpecs[] = {
    "e1m2:b32:e8m0/floor:rne",
    "e3m0:b32:e8m0/floor:rne",
    "mxint8",
    "int4:b32:e8m0/even:rna",
    "int8:row:fp32/amax:rtp",
    "int4:none:sr32",
    "e1m2:tensor:fp32/pow2:rne",
    "e3m0:b16:e4m3/te:rnz",
    "e2m1b0f:b32:e8m0/floor:rne",
    "e3m3f:b32:e8m0/rceil:rne",
    "e2m1b-3f:none:rne",
    "e4m1f:row:fp32/amax:sr8",
    "e5m0f:b16:e8m0/even:rne",
    "e1m1f:b32:e4m3/one:rne",
    "e2m1bautof:none:rne",
    "e3m2bautof:none:sr8",
    "e2m1:b32:e8m0/opt:rne",
    "e4m3:b16:e8m0/opt:rna",
    "int4:2d16:e8m0/opt:rne",
    "e2m1:b16:e4m3/exact:rne",
    "e4m3:b32:e4m3/exact:rtn",
    "e2m1:b16:e4m3/torchao:rne",
    "e2m1:b16:e4m3/modelopt:rnz",
    "e2m1:b16:e4m3/fouroversix:rne",
    "e2m1:b16:e4m3/4over6(mse):rne",
    "e2m1:b16:e4m3/4over6(mae):sr32",
    "e2m1:b16:ue5m3/te:rne",
    "e2m1:b32:ue3m4/one:rne",
    "e2m3:2d16:ue4m4/exact:rne",
    "e2m1:b16:ue8m0/te:rne",
    "e2m1:2d16:e4m3/te:rne",
    "e2m1:2d32:e8m0/floor:rne",
    "e4m3:2d32:fp32/amax:rne",
    "e2m1:col:fp32/amax:rne",
    "e2m1:col:e8m0/ceil:rtz",
    "e5m2:b64:fp32/pow2:rne",
    "e2m1:b32:e8m0/rceil:sr8",
    "mxfp4:sr8+sr34",
    "e2m1:b16:e4m3/exact:sr32+sr34",
    "e2m1:b32:e8m0/opt:rne+sr34",
    "e4m3:row:fp32/amax:rne+ieee",
    "bf16:none:rtz",
    "fp16:none:sr8",
    "fp32",
};

constexpr const char* kDistributions[] = {"bell", "e2m1_midpoints", "midpoints", "subnormals",
                                          "huge", "nonfinite",      "mixed"};
constexpr const char* kPlainDistributions[] = {"bell", "wide", "nonfinite", "cancelling"};

constexpr const char* kEstimators[] = {
    "ste",   "ste_clip",       "dge(k=5,clip=3,eps=0)", "dge(k=3,clip=3,eps=0.01)", "soft(beta=20,forward=hard)",
    "quest", "dsq(alpha=0.2)", "dsq(alpha=0.05)",       "ewgs(delta=0.1)"};
/// Grids of other spacings for the estimators: uniform, of powers of two, of integers, under a given bias.
constexpr const char* kEstimatorGrids[] = {"e1m2:b32:e8m0/floor:rne",
                                           "e3m0:b32:e8m0/floor:rne",
                                           "mxint8",
                                           "e2m1b-3f:none:rne",
                                           "e2m1bautof:none:rne",
                                           "e2m1:2d16:e4m3/te:rne",
                                           "e2m1:b16:e4m3/4over6(mse):rne",
                                           "mxfp4:sr8+sr34",
                                           "e2m1:col:fp32/amax:rne",
                                           "e2m1:b16:e4m3/exact:rne"};
constexpr const char* kSoftForwards[] = {"soft(beta=1,forward=soft)", "soft(beta=20,forward=soft)",
                                         "soft(beta=1000,forward=soft)"};

/// Pairs of operand formats: every rule of numerics.md §7.
struct OperandPair {
  const char *a, *b;
};
constexpr OperandPair kOperands[] = {
    {"f32", "f32"},
    {"bf16", "bf16"},
    {"f32", "mxfp4"},
    {"mxfp4", "mxfp4"},
    {"mxfp4", "mxfp8e5m2"},
    {"mxfp8e4m3", "mxfp8e5m2"},
    {"mxfp8e5m2", "mxfp8e5m2"},
    {"nvfp4", "nvfp4"},
    {"nvfp4", "mxfp4"},
    {"e2m1:row:fp32/amax:rne", "e2m1:row:fp32/amax:rne"},
    {"e2m1:row:fp32/amax:rne", "e4m3:tensor:fp32/amax:rne"},
    {"e5m2:tensor:fp32/amax:rne", "e2m1:row:fp32/amax:rne"},
    {"e5m2:tensor:fp32/amax:rne", "e4m3:row:fp32/amax:rne"},
    {"e2m1:2d16:e4m3/te:rne", "nvfp4"},
    {"e2m1:2d16:e4m3/te:rne", "e2m1:2d16:e8m0/floor:rne"},
    {"e2m1:2d32:e8m0/floor:rne", "mxfp4"},
    {"e2m1:2d32:fp32/amax:rne", "nvfp4"},
    {"e2m1:col:fp32/amax:rne", "e2m1:row:fp32/amax:rne"},
    {"e2m1:col:fp32/amax:rne", "e2m1:col:fp32/amax:rne"},
    {"mxint8", "mxint8"},
    {"mxint8", "mxfp4"},
    {"int4:row:fp32/amax:rne", "int8:tensor:fp32/amax:rne"},
    {"e1m2:b32:e8m0/floor:rne", "e3m0:b32:e8m0/floor:rne"},
    {"e3m3f:b32:e8m0/rceil:rne", "e2m1b0f:b32:e8m0/floor:rne"},
    {"e2m1b-3f:none:rne", "e2m1bautof:none:rne"},
    {"e2m1:b16:ue5m3/te:rne", "e2m1:b16:e4m3/one:rne"},
    {"e2m1:b16:e4m3/exact:rne", "e2m1:b16:e4m3/4over6(mse):rne"},
    {"mxfp4:sr8+sr34", "mxfp4:sr8+sr34"},
    {"mxfp4:sr8+sr34", "mxfp4"},
    {"f32", "e2m1:row:fp32/amax:sr8+sr34"},
    {"bf16", "fp16:none:rne"},
};

/// Every other op: parameter lines without distribution and seed.
constexpr const char* kOthers[] = {
    "embedding t=9 v=7 columns=5",
    "embedding_grad t=40 v=7 columns=5",
    "embedding_grad t=3100 v=2 columns=3",
    "sparse_matmul spec=e2m1:row:fp32/amax:rne+occ(0.9,fp32,row) k=60 m=5 n=4 axis=last other_axis=last side=a",
    "sparse_matmul spec=e2m1:row:fp32/amax:rne+occ(0.9,e4m3,tensor) k=60 m=5 n=4 axis=first other_axis=last side=b",
    "sparse_matmul spec=e2m1:row:fp32/amax:rne+occ(0.97,bf16,row) k=1500 m=2 n=3 axis=last other_axis=first side=a",
    "add_residual spec=e2m1:row:fp32/amax:rne+occ(0.9,e4m3,row) k=60 m=5 axis=last",
    "occ_split spec=e2m1:row:fp32/amax:rne+occ(0.99,e4m3,row) k=300 m=4 axis=last batch=0",
    "occ_split spec=e2m1:row:fp32/amax:rne+occ(0.9,fp32,tensor) k=40 m=9 axis=first batch=0",
    "occ_split spec=e2m1:row:fp32/amax:rne+occ(0.97,bf16,row) k=70 m=3 axis=last batch=2",
    "hadamard order=16 blocks=3 m=4 batch=0 axis=last signs=philox inverse=0",
    "hadamard order=32 blocks=2 m=4 batch=2 axis=first signs=fixed16 inverse=1",
    "hadamard order=128 blocks=1 m=2 batch=0 axis=last signs=none inverse=0",
    "add repeats=4 n=19",
    "mul repeats=4 n=19",
    "scale n=50 factor=0.1",
    "cast n=70 to=bf16",
    "cast n=70 to=f32",
    "permute b=2 s=3 m=4 d=5 perm=0,2,1,3 type=f32",
    "permute b=2 s=3 m=4 d=5 perm=3,0,1,2 type=bf16",
    "repeat_kv b=2 groups=2 repeats=3 s=2 d=5",
    "repeat_kv_grad b=2 groups=2 repeats=3 s=2 d=5",
    "concat inputs=3 n=12",
    "silu n=100",
    "silu_grad n=100",
    "gelu n=100",
    "gelu_grad n=100",
    "rmsnorm t=3 columns=70 eps=1e-5",
    "rmsnorm t=1 columns=4500 eps=1e-5",
    "rmsnorm_grad t=3 columns=70 eps=1e-5",
    "rmsnorm_grad t=2100 columns=3 eps=1e-5",
    "layernorm t=3 columns=70 eps=1e-5",
    "layernorm_grad t=3 columns=70 eps=1e-5",
    "layernorm_grad t=2100 columns=3 eps=1e-5",
    "rope batch=2 s=5 half=8 extra=1 style=interleaved inverse=0",
    "rope batch=2 s=5 half=8 extra=0 style=half inverse=1",
    "causal_softmax batch=2 s=40 scale=0.125",
    "causal_softmax_grad batch=2 s=40 scale=0.125",
    "cross_entropy t=5 classes=256",
    "cross_entropy t=2 classes=5000",
    "cross_entropy_grad t=5 classes=256",
    "mean n=100",
    "mean n=9000",
    "column_sum rows=2100 columns=5",
    "column_sum rows=7 columns=33",
    "norm inputs=3 n=5000",
    "clip n=50",
    "adamw n=50 weight_decay=0.1 beta1=0.9 beta2=0.95 eps=1e-8",
    "adamw n=50 weight_decay=0 beta1=0.9 beta2=0.999 eps=0",
};

class List {
 public:
  template <size_t N>
  void add(const std::string& line, const char* const (&distribution_names)[N]) {
    for (const char* distribution : distribution_names) {
      CaseParameters p = parse_parameters(line);
      p.distribution = distribution;
      p.seed = 1;
      cases_.push_back(std::move(p));
    }
  }
  std::vector<CaseParameters> take() { return std::move(cases_); }

 private:
  std::vector<CaseParameters> cases_;
};

void add_quantization(List& list) {
  for (const std::string spec : kSpecs)
    for (const std::string axis : {"last", "first"}) {
      const std::string sizes = " spec=" + spec + " axis=" + axis + " k=70 m=3 batch=0";
      list.add("quantize row_offset=5" + sizes, kDistributions);
      list.add("dequantize codes=1" + sizes, {"bell"});
    }
  for (const std::string estimator : kEstimators)
    for (const std::string spec : {"mxfp4", "nvfp4", "e2m1:row:fp32/amax:rne", "mxfp8e4m3", "e2m1:b32:e4m3/one:rne"})
      list.add("estimator_grad axis=last k=70 m=3 batch=0 estimator=" + estimator + " spec=" + spec,
               {"bell", "e2m1_midpoints", "nonfinite"});
}

void add_formats(List& list) {
  for (const std::string spec : kFormatSpecs)
    for (const std::string axis : {"last", "first"}) {
      const std::string sizes = " spec=" + spec + " axis=" + axis + " k=70 m=3 batch=0";
      list.add("quantize row_offset=5" + sizes, kDistributions);
      list.add("dequantize codes=1" + sizes, {"bell"});
      list.add("dequantize codes=2" + sizes, {"bell"});
    }
  // Tiles end at their matrix, a batch shares the tensor amax, and a given amax replaces it.
  for (const std::string spec : {"e2m1:2d16:e4m3/te:rne", "e2m1:2d32:e8m0/floor:sr32", "e2m1:b16:e4m3/exact:rne",
                                 "e2m1:col:fp32/amax:rne", "e2m1:tensor:fp32/amax:rne", "e2m1bautof:none:rne"})
    list.add("quantize row_offset=0 axis=last k=40 m=20 batch=3 spec=" + spec, {"bell", "wide", "nonfinite"});
  for (const std::string spec : {"nvfp4", "e2m1:b16:e4m3/exact:rne", "e2m1:b16:e4m3/torchao:rne",
                                 "e2m1:b16:e4m3/modelopt:rne", "e2m1:b16:e4m3/fouroversix:rne",
                                 "e2m1:b16:e4m3/4over6(mae):rne", "e4m3:tensor:fp32/amax:sr32", "e3m2bautof:none:rne"})
    list.add("quantize amax=1 row_offset=0 axis=last k=70 m=3 batch=0 spec=" + spec,
             {"bell", "e2m1_midpoints", "subnormals", "huge"});
  for (const std::string spec : kEstimatorGrids) {
    const std::string sizes = " axis=last k=70 m=3 batch=0 spec=" + spec;
    for (const std::string estimator : kEstimators)
      list.add("estimator_grad estimator=" + estimator + sizes, {"e2m1_midpoints", "mixed"});
  }
  for (const std::string estimator : kSoftForwards) {
    for (const std::string spec : {"mxfp4", "nvfp4", "e2m1:row:fp32/amax:rne", "mxfp8e4m3"})
      list.add("soft_forward axis=first k=70 m=3 batch=0 estimator=" + estimator + " spec=" + spec,
               {"bell", "e2m1_midpoints", "nonfinite", "wide"});
    for (const std::string spec : kEstimatorGrids)
      list.add("soft_forward axis=last k=70 m=3 batch=0 estimator=" + estimator + " spec=" + spec, {"bell", "mixed"});
  }
}

void add_products(List& list) {
  for (const OperandPair& pair : kOperands) {
    const std::string formats = std::string(" a_format=") + pair.a + " b_format=" + pair.b + " codes=0";
    list.add("matmul batch=0 m=3 n=4 k=70 a_axis=last b_axis=last" + formats, kPlainDistributions);
    list.add("matmul batch=2 m=3 n=4 k=70 a_axis=first b_axis=first" + formats, {"bell"});
    list.add("matmul batch=0 m=2 n=2 k=3200 a_axis=last b_axis=first" + formats, {"wide"});
  }
}

}  // namespace

std::vector<CaseParameters> golden_cases() {
  List list;
  add_quantization(list);
  add_formats(list);
  add_products(list);
  for (const std::string line : kOthers) list.add(line, kPlainDistributions);
  return list.take();
}

}  // namespace fp4sim::fuzz
