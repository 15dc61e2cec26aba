#include "cli/train/checkpoint.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/io/safetensors.h"
#include "cli/io/sha256.h"
#include "reference/contract/error.h"

namespace fp4sim::train {
namespace {

constexpr std::string_view kFormatKey = "fp4sim.format";
constexpr std::string_view kFormat = "training-state/1";
constexpr std::string_view kNotePrefix = "note.";

using Metadata = std::map<std::string, std::string>;

/// States share the file with the parameters, whose names have no '/'.
bool is_state_name(std::string_view name) { return name.find('/') != std::string_view::npos; }

std::string to_hex(double value) { return fmt::format("{:016x}", std::bit_cast<uint64_t>(value)); }

std::string to_hex(const std::vector<double>& values) {
  std::string words;
  for (const double value : values) words += to_hex(value);
  return words;
}

std::string model_to_json(const ModelConfig& m) {
  return nlohmann::json{{"kind", m.kind},
                        {"layers", m.layers},
                        {"heads", m.heads},
                        {"kv_heads", m.kv_heads},
                        {"width", m.width},
                        {"hidden", m.hidden},
                        {"context", m.context},
                        {"vocab", m.vocab},
                        {"tied_head", m.tied_head},
                        {"rope_style", m.rope_style},
                        {"rope_theta", to_hex(m.rope_theta)},
                        {"norm_eps", to_hex(m.norm_eps)}}
      .dump();
}

/// Reads typed metadata; every failure names the file and the key.
class MetadataReader {
 public:
  MetadataReader(const Metadata& metadata, const std::string& path) : metadata_(metadata), path_(path) {}

  const std::string& text(std::string_view key) const {
    const auto found = metadata_.find(std::string(key));
    if (found == metadata_.end()) fail(fmt::format("`{}` is missing", key));
    return found->second;
  }

  template <class T>
  T number(std::string_view key, int base = 10) const {
    const std::string& word = text(key);
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (error != std::errc{} || end != word.data() + word.size()) fail(fmt::format("`{}` is not a number", key));
    return value;
  }

  /// Values in 16 hexadecimal digits each.
  std::vector<double> binary64_list(std::string_view key) const {
    const std::string& words = text(key);
    if (words.size() % 16 != 0) fail(fmt::format("`{}` is not a list of numbers", key));
    std::vector<double> values;
    for (size_t at = 0; at < words.size(); at += 16)
      values.push_back(MetadataReader({{std::string(key), words.substr(at, 16)}}, path_).binary64(key));
    return values;
  }

  double binary64(std::string_view key) const { return std::bit_cast<double>(number<uint64_t>(key, 16)); }

  ModelConfig model() const {
    ModelConfig m;
    try {
      const auto json = nlohmann::json::parse(text("model"));
      const auto hex = [&](const char* key) {
        const MetadataReader inner({{key, json.at(key).get<std::string>()}}, path_);
        return inner.binary64(key);
      };
      m.kind = json.at("kind").get<std::string>();
      for (const auto& [key, field] : {std::pair{"layers", &m.layers},
                                       {"heads", &m.heads},
                                       {"kv_heads", &m.kv_heads},
                                       {"width", &m.width},
                                       {"hidden", &m.hidden},
                                       {"context", &m.context},
                                       {"vocab", &m.vocab}})
        *field = json.at(key).get<int64_t>();
      m.tied_head = json.at("tied_head").get<bool>();
      m.rope_style = json.at("rope_style").get<std::string>();
      m.rope_theta = hex("rope_theta");
      m.norm_eps = hex("norm_eps");
      if (m.rope_style != "interleaved" && m.rope_style != "half") fail("`rope_style` is neither interleaved nor half");
      return resolved(m);
    } catch (const nlohmann::json::exception&) {
      fail("`model` is not a model description");
    } catch (const UsageError& error) {
      fail(error.what());
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: damaged checkpoint: {}", path_, what));
  }

 private:
  Metadata metadata_;
  const std::string& path_;
};

}  // namespace

bool is_checkpoint(const Metadata& metadata) { return metadata.contains(std::string(kFormatKey)); }

std::string parameters_hash(const TensorMap& parameters) {
  io::Sha256 hash;
  for (const auto& [name, tensor] : parameters) hash.update(tensor.bytes);
  return hash.finish();
}

void require_parameters(const ModelConfig& model, const TensorMap& parameters, const std::string& origin) {
  std::set<std::string> known;
  for (const ParameterInfo& info : parameter_infos(model)) {
    known.insert(info.name);
    const auto found = parameters.find(info.name);
    if (found == parameters.end()) throw Error(fmt::format("{}: parameter '{}' is missing", origin, info.name));
    if (found->second.type != io::FileType::f32)
      throw Error(fmt::format("{}: parameter '{}' has type {}, not F32", origin, info.name,
                              io::file_type_name(found->second.type)));
    if (found->second.shape != info.shape)
      throw Error(fmt::format("{}: parameter '{}' has shape {}, the model needs {}", origin, info.name,
                              to_string(found->second.shape), to_string(info.shape)));
  }
  for (const auto& [name, tensor] : parameters)
    if (!known.contains(name)) throw Error(fmt::format("{}: the model has no parameter '{}'", origin, name));
}

void save_checkpoint(const std::string& path, const TrainingState& state) {
  require_parameters(state.model, state.parameters, path);
  TensorMap tensors = state.parameters;
  for (const auto& [name, tensor] : state.states) {
    if (!is_state_name(name)) throw Error(fmt::format("{}: state '{}' needs a name with '/'", path, name));
    tensors[name] = tensor;
  }
  Metadata metadata = {{std::string(kFormatKey), std::string(kFormat)},
                       {"model", model_to_json(state.model)},
                       {"step", std::to_string(state.step)},
                       {"beta1_power", to_hex(state.beta1_power)},
                       {"beta2_power", to_hex(state.beta2_power)},
                       {"seed", std::to_string(state.seed)},
                       {"data_cursor", std::to_string(state.data_cursor)},
                       {"recipe", state.recipe},
                       {"config", state.config},
                       {"numerics_version", std::to_string(state.numerics_version)},
                       {"parameters_hash", parameters_hash(state.parameters)},
                       {"recent_losses", to_hex(state.recent_losses)}};
  for (const auto& [name, text] : state.notes) metadata[std::string(kNotePrefix) + name] = text;
  io::write_safetensors(path, tensors, metadata);
}

TrainingState load_checkpoint(const std::string& path) {
  const io::SafetensorsFile file(path);
  const Metadata& metadata = file.metadata();
  if (!is_checkpoint(metadata)) throw Error(fmt::format("{}: a safetensors file, but not an fp4sim checkpoint", path));
  const MetadataReader reader(metadata, path);
  if (reader.text(kFormatKey) != kFormat)
    throw Error(
        fmt::format("{}: checkpoint layout '{}', this program reads '{}'", path, reader.text(kFormatKey), kFormat));
  TrainingState state;
  state.model = reader.model();
  state.step = reader.number<int64_t>("step");
  state.beta1_power = reader.binary64("beta1_power");
  state.beta2_power = reader.binary64("beta2_power");
  state.seed = reader.number<uint64_t>("seed");
  state.data_cursor = reader.number<int64_t>("data_cursor");
  state.recipe = reader.text("recipe");
  state.config = reader.text("config");
  state.numerics_version = reader.number<int64_t>("numerics_version");
  if (state.step < 0 || state.data_cursor < 0) reader.fail("a count is negative");
  for (const auto& [key, text] : metadata)
    if (key.starts_with(kNotePrefix)) state.notes[key.substr(kNotePrefix.size())] = text;
  state.recent_losses = reader.binary64_list("recent_losses");
  for (const io::TensorEntry& entry : file.tensors())
    (is_state_name(entry.name) ? state.states : state.parameters)[entry.name] = file.read(entry.name);
  // before parameter_infos: a damaged layer count must not ask for memory
  if (state.model.layers > static_cast<int64_t>(state.parameters.size()))
    reader.fail(fmt::format("{} layers, but {} parameters", state.model.layers, state.parameters.size()));
  require_parameters(state.model, state.parameters, path);
  if (parameters_hash(state.parameters) != reader.text("parameters_hash"))
    reader.fail("the parameters' bytes do not have the stored hash");
  return state;
}

}  // namespace fp4sim::train
