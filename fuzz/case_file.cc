#include "fuzz/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/io/safetensors.h"
#include "reference/contract/error.h"

namespace fp4sim::fuzz {
namespace {

using Metadata = std::map<std::string, std::string>;
using Tensors = std::map<std::string, io::HostTensor>;

constexpr const char* kFormat = "fp4sim-case-1";
constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::i32, DType::u8, DType::packed, DType::csr};

// ---- attributes: a letter for the type, then the value; numbers as hex floats, so that they come back bit for bit
// ----

std::string attr_text(const Attr& attr) {
  if (const auto* i = std::get_if<int64_t>(&attr)) return fmt::format("i:{}", *i);
  if (const auto* d = std::get_if<double>(&attr)) return fmt::format("d:{:a}", *d);
  return "s:" + std::get<std::string>(attr);
}

Attr parse_attr(const std::string& text) {
  const std::string value = text.size() < 2 ? "" : text.substr(2);
  if (text.starts_with("i:")) return static_cast<int64_t>(std::strtoll(value.c_str(), nullptr, 10));
  if (text.starts_with("d:")) return std::strtod(value.c_str(), nullptr);
  if (text.starts_with("s:")) return value;
  throw Error("case file: attribute value `" + text + "` has no type letter");
}

// ---- value types: NAME.dtype, NAME.shape, and for packed and csr NAME.spec, NAME.axis ----

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape, ",")); }

/// Sizes beyond it are damage: below it no product of sizes and bytes leaves int64.
constexpr int64_t kMaxElements = int64_t{1} << 40;

Shape parse_shape(const std::string& text) {
  Shape shape;
  int64_t elements = 1;  // a size of 0 counts as 1: other products of the sizes stay bounded too
  for (size_t at = 0; at < text.size();) {
    char* end = nullptr;
    const int64_t size = std::strtoll(text.c_str() + at, &end, 10);
    const auto next = static_cast<size_t>(end - text.c_str());
    if (next == at || size < 0 || size > kMaxElements / elements) throw Error("case file: `" + text + "` is no shape");
    elements *= std::max<int64_t>(size, 1);
    shape.push_back(size);
    at = next + 1;
  }
  return shape;
}

const std::string& metadata_at(const Metadata& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) throw Error("case file: no metadata `" + key + "`");
  return it->second;
}

void write_type(const std::string& name, const ValueType& type, Metadata& metadata) {
  metadata[name + ".dtype"] = to_string(type.dtype);
  metadata[name + ".shape"] = shape_text(type.shape);
  if (type.dtype != DType::packed && type.dtype != DType::csr) return;
  metadata[name + ".spec"] = to_string(type.spec);
  metadata[name + ".axis"] = to_string(type.axis);
}

ValueType read_type(const std::string& name, const Metadata& metadata) {
  const std::string& dtype = metadata_at(metadata, name + ".dtype");
  ValueType type;
  bool known = false;
  for (const DType d : kDTypes)
    if (dtype == to_string(d)) type.dtype = d, known = true;
  if (!known) throw Error("case file: unknown element type `" + dtype + "`");
  type.shape = parse_shape(metadata_at(metadata, name + ".shape"));
  if (type.dtype != DType::packed && type.dtype != DType::csr) return type;
  type.spec = parse_quant_spec(metadata_at(metadata, name + ".spec"));
  type.axis = parse_axis(metadata_at(metadata, name + ".axis"));
  return type;
}

// ---- values: one tensor a component, NAME.codes, NAME.scales … ----

io::FileType file_type(const ValueType& type, const PartLayout& part) {
  if (type.dtype == DType::csr && part.name == std::string("row_ptr")) return io::FileType::i64;
  switch (part.dtype) {
    case DType::f32: return io::FileType::f32;
    case DType::bf16: return io::FileType::bf16;
    case DType::i32: return io::FileType::i32;
    default: return io::FileType::u8;
  }
}

void write_value(const std::string& name, const HostValue& value, Tensors& tensors, Metadata& metadata) {
  write_type(name, value.type, metadata);
  size_t index = 0;
  for (const PartLayout& part : part_layouts(value.type)) {
    io::HostTensor tensor;
    tensor.type = file_type(value.type, part);
    tensor.shape = {part.bytes / io::file_type_bytes(tensor.type)};
    tensor.bytes = value.parts[index++];
    tensors[name + "." + part.name] = std::move(tensor);
  }
}

HostValue read_value(const std::string& name, const io::SafetensorsFile& file) {
  HostValue value{read_type(name, file.metadata()), {}};
  for (const PartLayout& part : part_layouts(value.type)) {
    io::HostTensor tensor = file.read(name + "." + part.name);
    if (tensor.type != file_type(value.type, part) || static_cast<int64_t>(tensor.bytes.size()) != part.bytes)
      throw Error(fmt::format("case file: {}.{} has {} bytes, {} needs {}", name, part.name, tensor.bytes.size(),
                              to_string(value.type), part.bytes));
    value.parts.push_back(std::move(tensor.bytes));
  }
  return value;
}

std::string value_name(const char* kind, size_t index) { return fmt::format("{}{}", kind, index); }

constexpr std::byte kPoison{0xA5};

}  // namespace

Node node_of(const Case& c) {
  Node node{c.op, {}, {}, c.attrs, c.name};
  for (size_t i = 0; i < c.inputs.size(); ++i) node.inputs.push_back(static_cast<ValueId>(i));
  const size_t outputs = output_types(c).size();
  for (size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(static_cast<ValueId>(c.op == Op::adamw ? i : c.inputs.size() + i));
  return node;
}

std::vector<ValueType> output_types(const Case& c) {
  std::vector<ValueType> inputs;
  for (const HostValue& value : c.inputs) inputs.push_back(value.type);
  return infer_types(c.op, inputs, c.attrs);
}

std::vector<HostValue> run_case(Backend& backend, const Case& c) {
  const std::vector<ValueType> types = output_types(c);
  std::vector<OwnedTensor> owned;
  std::vector<Tensor> in, out;
  std::vector<ValueType> in_types;
  for (const HostValue& value : c.inputs) {
    owned.push_back(place_value(backend, value));
    in.push_back(owned.back().tensor);
    in_types.push_back(value.type);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (c.op == Op::adamw) {
      out.push_back(in[i]);
      continue;
    }
    HostValue poison = zero_value(types[i]);
    for (auto& part : poison.parts) std::fill(part.begin(), part.end(), kPoison);
    owned.push_back(place_value(backend, poison));
    out.push_back(owned.back().tensor);
  }
  const Node node = node_of(c);
  backend.check(node, in_types, types);
  backend.run({node, in, out});
  std::vector<HostValue> results;
  for (const Tensor& tensor : out) results.push_back(download_value(backend, tensor));
  return results;
}

void save_case(const std::string& path, const Case& c) {
  Metadata metadata{{"format", kFormat},
                    {"op", op_name(c.op)},
                    {"name", c.name},
                    {"origin", c.origin},
                    {"inputs", std::to_string(c.inputs.size())},
                    {"outputs", std::to_string(c.outputs.size())}};
  for (const auto& [name, value] : c.attrs.items()) metadata["attr." + name] = attr_text(value);
  Tensors tensors;
  for (size_t i = 0; i < c.inputs.size(); ++i) write_value(value_name("in", i), c.inputs[i], tensors, metadata);
  for (size_t i = 0; i < c.outputs.size(); ++i) write_value(value_name("out", i), c.outputs[i], tensors, metadata);
  io::write_safetensors(path, tensors, metadata);
}

Case load_case(const std::string& path) {
  const io::SafetensorsFile file(path);
  const Metadata& metadata = file.metadata();
  if (metadata_at(metadata, "format") != kFormat) throw Error("case file " + path + ": not format " + kFormat);
  Case c;
  c.op = parse_op(metadata_at(metadata, "op"));
  c.name = metadata_at(metadata, "name");
  c.origin = metadata_at(metadata, "origin");
  const std::string prefix = "attr.";
  for (const auto& [key, value] : metadata)
    if (key.starts_with(prefix)) c.attrs.set(key.substr(prefix.size()), parse_attr(value));
  const auto count = [&](const char* key) { return std::strtoull(metadata_at(metadata, key).c_str(), nullptr, 10); };
  for (size_t i = 0; i < count("inputs"); ++i) c.inputs.push_back(read_value(value_name("in", i), file));
  for (size_t i = 0; i < count("outputs"); ++i) c.outputs.push_back(read_value(value_name("out", i), file));
  const std::vector<ValueType> types = output_types(c);
  for (size_t i = 0; i < c.outputs.size(); ++i)
    if (i >= types.size() || !(c.outputs[i].type == types[i]))
      throw Error(fmt::format("case file {}: output {} is {}", path, i, to_string(c.outputs[i].type)));
  return c;
}

std::string describe(const Case& c) {
  std::string inputs;
  for (const HostValue& value : c.inputs) inputs += (inputs.empty() ? "" : ", ") + to_string(value.type);
  const std::string attrs = to_string(c.attrs);
  return fmt::format("{} {} ({}){}{}", op_name(c.op), c.name, inputs, attrs.empty() ? "" : " ", attrs);
}

}  // namespace fp4sim::fuzz
