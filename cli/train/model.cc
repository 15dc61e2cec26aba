#include "cli/train/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/contract/error.h"
#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"

namespace fp4sim::train {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw UsageError("model: " + what);
}

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// A sequence model's forward pass, one method a sublayer.
class ForwardBuilder {
 public:
  ForwardBuilder(Graph& graph, const ModelConfig& config, const ModelValues& values, int64_t batch, int64_t length)
      : graph_(graph), config_(config), values_(values), batch_(batch), length_(length) {}

  ValueId node(Op op, std::vector<ValueId> in, Attrs attrs, const std::string& name) {
    return add_node(graph_, op, std::move(in), std::move(attrs), name).front();
  }

  ValueId parameter(const std::string& name) const { return values_.parameters.at(name); }

  /// y = x·wᵀ (+ bias): (rows, in) → (rows, out).
  ValueId linear(ValueId x, const std::string& layer, const std::string& weight) {
    const Attrs attrs{{"a_axis", "last"}, {"b_axis", "last"}, {"a_role", "x"}, {"b_role", "w"}};
    const ValueId y = node(Op::matmul, {x, parameter(weight)}, attrs, layer + "/fprop");
    const auto bias = values_.parameters.find(layer + ".bias");
    return bias == values_.parameters.end() ? y : node(Op::add, {y, bias->second}, {}, layer + "/bias");
  }
  ValueId linear(ValueId x, const std::string& layer) { return linear(x, layer, layer + ".weight"); }

  ValueId norm(ValueId x, const std::string& name) {
    const Attrs eps{{"eps", config_.norm_eps}};
    if (config_.kind == "llama") return node(Op::rmsnorm, {x, parameter(name + ".weight")}, eps, name);
    return node(Op::layernorm, {x, parameter(name + ".weight"), parameter(name + ".bias")}, eps, name);
  }

  /// (batch·length, heads·D) → (batch·heads, length, D).
  ValueId split_heads(ValueId x, int64_t heads, const std::string& name) {
    const int64_t d = config_.head_width();
    return node(Op::permute, {x},
                {{"view", fmt::format("{},{},{},{}", batch_, length_, heads, d)},
                 {"perm", "0,2,1,3"},
                 {"shape", fmt::format("{},{},{}", batch_ * heads, length_, d)}},
                name);
  }

  ValueId join_heads(ValueId x, const std::string& name) {
    const int64_t d = config_.head_width();
    return node(Op::permute, {x},
                {{"view", fmt::format("{},{},{},{}", batch_, config_.heads, length_, d)},
                 {"perm", "0,2,1,3"},
                 {"shape", fmt::format("{},{}", batch_ * length_, config_.width)}},
                name);
  }

  ValueId rotate(ValueId x, const std::string& name) {
    return node(Op::rope, {x, values_.rope_cos, values_.rope_sin}, {{"style", config_.rope_style}}, name);
  }

  ValueId attention(ValueId x, const std::string& prefix) {
    ValueId q = split_heads(linear(x, prefix + ".q"), config_.heads, prefix + ".q/heads");
    ValueId k = split_heads(linear(x, prefix + ".k"), config_.kv_heads, prefix + ".k/heads");
    ValueId v = split_heads(linear(x, prefix + ".v"), config_.kv_heads, prefix + ".v/heads");
    if (config_.kind == "llama") {
      q = rotate(q, prefix + ".q/rope");
      k = rotate(k, prefix + ".k/rope");
    }
    if (config_.kv_heads != config_.heads) {
      const Attrs repeat{{"groups", config_.kv_heads}, {"repeats", config_.heads / config_.kv_heads}};
      k = node(Op::repeat_kv, {k}, repeat, prefix + ".k/repeat");
      v = node(Op::repeat_kv, {v}, repeat, prefix + ".v/repeat");
    }
    const ValueId z =
        node(Op::matmul, {q, k}, {{"a_axis", "last"}, {"b_axis", "last"}, {"a_role", "q"}, {"b_role", "k"}},
             prefix + ".qk/fprop");
    const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_width()));
    const ValueId p = node(Op::causal_softmax, {z}, {{"scale", scale}}, prefix + ".softmax");
    const ValueId o =
        node(Op::matmul, {p, v}, {{"a_axis", "last"}, {"b_axis", "first"}, {"a_role", "p"}, {"b_role", "v"}},
             prefix + ".pv/fprop");
    return linear(join_heads(o, prefix + ".join"), prefix + ".o");
  }

  ValueId feed_forward(ValueId x, const std::string& prefix) {
    if (config_.kind == "gpt") {
      const ValueId h = node(Op::gelu, {linear(x, prefix + ".up")}, {}, prefix + ".gelu");
      return linear(h, prefix + ".down");
    }
    const ValueId gate = node(Op::silu, {linear(x, prefix + ".gate")}, {}, prefix + ".silu");
    const ValueId h = node(Op::mul, {gate, linear(x, prefix + ".up")}, {}, prefix + ".gated");
    return linear(h, prefix + ".down");
  }

  ValueId layer(ValueId x, int64_t index) {
    const std::string prefix = fmt::format("layers.{}", index);
    x = node(Op::add, {x, attention(norm(x, prefix + ".attn_norm"), prefix + ".attn")}, {}, prefix + ".attn/residual");
    return node(Op::add, {x, feed_forward(norm(x, prefix + ".ffn_norm"), prefix + ".ffn")}, {},
                prefix + ".ffn/residual");
  }

  ValueId logits(ValueId ids) {
    ValueId x = node(Op::embedding, {ids, parameter("embedding.weight")}, {}, "embedding");
    if (config_.kind == "gpt") x = node(Op::add, {x, positions()}, {}, "positions");
    for (int64_t i = 0; i < config_.layers; ++i) x = layer(x, i);
    return linear(norm(x, "final_norm"), "head", config_.tied_head ? "embedding.weight" : "head.weight");
  }

 private:
  ValueId positions() {
    if (length_ != config_.context)
      throw Error(fmt::format("gpt: sequences must have the context's length {}, got {}", config_.context, length_));
    return parameter("positions.weight");
  }

  Graph& graph_;
  const ModelConfig& config_;
  const ModelValues& values_;
  int64_t batch_, length_;
};

}  // namespace

ModelConfig resolved(ModelConfig c) {
  require(c.kind == "gpt" || c.kind == "llama", "unknown model `" + c.kind + "` (gpt, llama)");
  const bool llama = c.kind == "llama";
  const auto check_size = [](const char* name, int64_t v) {
    require(v > 0 && v <= 1 << 24, fmt::format("{} must be between 1 and 2^24, got {}", name, v));
  };
  check_size("width", c.width);  // before the hidden width that follows from it
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.hidden == 0) c.hidden = llama ? round_up((8 * c.width + 2) / 3, 32) : 4 * c.width;
  if (!llama) c.tied_head = true;
  for (const auto& [name, v] : {std::pair{"layers", c.layers},
                                {"heads", c.heads},
                                {"kv-heads", c.kv_heads},
                                {"hidden", c.hidden},
                                {"context", c.context},
                                {"vocab", c.vocab}})
    check_size(name, v);
  require(c.width % c.heads == 0, fmt::format("width {} is not a multiple of heads {}", c.width, c.heads));
  require(c.heads % c.kv_heads == 0, fmt::format("heads {} is not a multiple of kv-heads {}", c.heads, c.kv_heads));
  require(llama || c.kv_heads == c.heads, "kv-heads belongs to llama");
  require(!llama || c.head_width() % 2 == 0,
          fmt::format("rotary pairs need an even head width, got {}", c.head_width()));
  return c;
}

std::string first_difference(const ModelConfig& a, const ModelConfig& b) {
  const auto row = [](const char* name, const auto& x, const auto& y) {
    return x == y ? std::string() : fmt::format("{} {} and {}", name, x, y);
  };
  const bool llama = a.kind == "llama";
  const std::string rows[] = {row("model", a.kind, b.kind),
                              row("layers", a.layers, b.layers),
                              row("heads", a.heads, b.heads),
                              row("kv-heads", a.kv_heads, b.kv_heads),
                              row("width", a.width, b.width),
                              row("hidden", a.hidden, b.hidden),
                              llama ? std::string() : row("context", a.context, b.context),
                              row("vocab", a.vocab, b.vocab),
                              row("tied-head", a.tied_head, b.tied_head),
                              llama ? row("rope-style", a.rope_style, b.rope_style) : std::string(),
                              llama ? row("rope-theta", a.rope_theta, b.rope_theta) : std::string(),
                              row("norm-eps", a.norm_eps, b.norm_eps)};
  for (const std::string& text : rows)
    if (!text.empty()) return text;
  return {};
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> rows = {
      {"tiny", 2, 4, 0, 64, 0, 32, 4, "tests"},
      {"small", 4, 4, 0, 128, 0, 64, 12, "the default: seconds a hundred steps on two cores"},
      {"medium", 6, 6, 0, 384, 0, 256, 64, "a GPU's size"},
      {"llama2-1.3b", 24, 16, 0, 2048, 5461, 2048, 2048, "shape of arXiv 2501.17116; for cost, not to be trained here"},
      {"llama2-7b", 32, 32, 0, 4096, 11008, 2048, 2048, "shape of arXiv 2501.17116; for cost"},
      {"llama2-13b", 40, 40, 0, 5120, 13824, 2048, 2048, "shape of arXiv 2501.17116; for cost"},
  };
  return rows;
}

const Preset& find_preset(const std::string& name) {
  std::string names;
  for (const Preset& p : presets()) {
    if (name == p.name) return p;
    names += (names.empty() ? "" : ", ") + std::string(p.name);
  }
  throw UsageError("unknown preset `" + name + "` (" + names + ")");
}

std::vector<ParameterInfo> parameter_infos(const ModelConfig& c) {
  using Init = ParameterInfo::Init;
  std::vector<ParameterInfo> infos;
  const bool llama = c.kind == "llama";
  const auto norm = [&](const std::string& name) {
    infos.push_back({name + ".weight", {c.width}, Init::one});
    if (!llama) infos.push_back({name + ".bias", {c.width}, Init::zero});
  };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, Init init) {
    infos.push_back({name + ".weight", {out, in}, init});
    if (!llama) infos.push_back({name + ".bias", {out}, Init::zero});
  };
  const int64_t kv = c.kv_heads * c.head_width();
  infos.push_back({"embedding.weight", {c.vocab, c.width}, Init::normal});
  if (!llama) infos.push_back({"positions.weight", {c.context, c.width}, Init::normal});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string p = fmt::format("layers.{}", i);
    norm(p + ".attn_norm");
    linear(p + ".attn.q", c.width, c.width, Init::normal);
    linear(p + ".attn.k", kv, c.width, Init::normal);
    linear(p + ".attn.v", kv, c.width, Init::normal);
    linear(p + ".attn.o", c.width, c.width, Init::residual);
    norm(p + ".ffn_norm");
    if (llama) linear(p + ".ffn.gate", c.hidden, c.width, Init::normal);
    linear(p + ".ffn.up", c.hidden, c.width, Init::normal);
    linear(p + ".ffn.down", c.width, c.hidden, Init::residual);
  }
  norm("final_norm");
  if (!c.tied_head) infos.push_back({"head.weight", {c.vocab, c.width}, Init::normal});
  std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return infos;
}

std::vector<float> initial_values(const ParameterInfo& info, const ModelConfig& config, uint64_t seed) {
  using Init = ParameterInfo::Init;
  std::vector<float> values(static_cast<size_t>(element_count(info.shape)), info.init == Init::one ? 1.0f : 0.0f);
  if (info.init == Init::zero || info.init == Init::one) return values;
  double std = 0.02;
  if (info.init == Init::residual) std = 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers));
  const uint32_t stream = stream_of(info.name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std * host_math::normal64(seed, stream, static_cast<int64_t>(i)));
  return values;
}

ModelValues add_model_values(Graph& graph, const ModelConfig& config) {
  ModelValues values;
  for (const ParameterInfo& info : parameter_infos(config))
    values.parameters[info.name] =
        add_value(graph, {DType::f32, info.shape, {}, Axis::last}, ValueKind::parameter, info.name);
  if (config.kind == "llama") {
    const ValueType table{DType::f32, {config.context, config.head_width() / 2}, {}, Axis::last};
    values.rope_cos = add_value(graph, table, ValueKind::constant, "rope.cos");
    values.rope_sin = add_value(graph, table, ValueKind::constant, "rope.sin");
  }
  return values;
}

std::vector<float> rope_table(const ModelConfig& config, bool sine) {
  const int64_t half = config.head_width() / 2;
  std::vector<float> table;
  for (int64_t pos = 0; pos < config.context; ++pos)
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(2 * half);
      const double angle = static_cast<double>(pos) * host_math::pow64(config.rope_theta, exponent);
      table.push_back(static_cast<float>(sine ? host_math::sin64(angle) : host_math::cos64(angle)));
    }
  return table;
}

ForwardValues add_forward(Graph& graph, const ModelConfig& config, const ModelValues& values, int64_t batch,
                          int64_t length, const std::string& suffix, bool with_losses) {
  if (length > config.context)
    throw Error(fmt::format("model: {} tokens do not fit the context of {}", length, config.context));
  ForwardValues f;
  const ValueType tokens{DType::i32, {batch * length}, {}, Axis::last};
  f.ids = add_value(graph, tokens, ValueKind::input, "ids" + suffix);
  ForwardBuilder builder(graph, config, values, batch, length);
  f.logits = builder.logits(f.ids);
  if (with_losses) {
    f.targets = add_value(graph, tokens, ValueKind::input, "targets" + suffix);
    f.losses = builder.node(Op::cross_entropy, {f.logits, f.targets}, {}, "loss" + suffix);
  }
  return f;
}

}  // namespace fp4sim::train
