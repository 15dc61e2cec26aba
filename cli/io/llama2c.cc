#include "cli/io/llama2c.h"

#include <fmt/format.h>

#include <cstring>

#include "cli/io/files.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

constexpr size_t kHeaderBytes = 7 * sizeof(int32_t);
constexpr int64_t kMaxField = 1 << 24;  // keeps every product of four fields inside int64

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(fmt::format("{}: not a valid llama2.c checkpoint: {}", path, what));
}

Llama2cHeader read_header(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kHeaderBytes)
    fail(path, fmt::format("{} bytes long, the header alone needs {}", file.size(), kHeaderBytes));
  int32_t field[7];
  std::memcpy(field, file.data(), kHeaderBytes);
  const bool tied = field[5] > 0;
  const int64_t vocab = tied ? int64_t{field[5]} : -int64_t{field[5]};
  const Llama2cHeader header{field[0], field[1], field[2], field[3], field[4], vocab, field[6], tied};
  const struct {
    const char* name;
    int64_t value;
  } rows[] = {{"dim", header.width},      {"hidden_dim", header.hidden},   {"n_layers", header.layers},
              {"n_heads", header.heads},  {"n_kv_heads", header.kv_heads}, {"vocab_size", header.vocab},
              {"seq_len", header.context}};
  for (const auto& row : rows)
    if (row.value < 1 || row.value > kMaxField)
      fail(path, fmt::format("{} is {}, outside 1 … {}", row.name, row.value, kMaxField));
  if (header.width % header.heads != 0 || (header.width / header.heads) % 2 != 0)
    fail(path, fmt::format("dim {} does not divide into {} heads of even width", header.width, header.heads));
  if (header.heads % header.kv_heads != 0)
    fail(path, fmt::format("{} heads do not divide into {} key-value heads", header.heads, header.kv_heads));
  return header;
}

struct Section {
  const char* name;  // nullptr: skipped
  Shape shape;
};

/// The tensors in file order.
std::vector<Section> sections_of(const Llama2cHeader& h) {
  const int64_t head_width = h.width / h.heads;
  const int64_t kv = h.kv_heads * head_width;
  std::vector<Section> sections = {
      {"tok_emb", {h.vocab, h.width}},
      {"rms_att", {h.layers, h.width}},
      {"wq", {h.layers, h.width, h.width}},
      {"wk", {h.layers, kv, h.width}},
      {"wv", {h.layers, kv, h.width}},
      {"wo", {h.layers, h.width, h.width}},
      {"rms_ffn", {h.layers, h.width}},
      {"w1", {h.layers, h.hidden, h.width}},
      {"w2", {h.layers, h.width, h.hidden}},
      {"w3", {h.layers, h.hidden, h.width}},
      {"rms_final", {h.width}},
      {nullptr, {2, h.context, head_width / 2}},  // cosines and sines, computed anew by every reader
  };
  if (!h.tied_head) sections.push_back({"wcls", {h.vocab, h.width}});
  return sections;
}

}  // namespace

Llama2cFile read_llama2c(const std::string& path) {
  const MappedFile file(path);
  Llama2cFile result;
  result.header = read_header(file.bytes(), path);
  const std::vector<Section> sections = sections_of(result.header);
  double needed = kHeaderBytes;  // binary64: a sum of absurd sizes must not overflow
  for (const Section& section : sections) {
    double bytes = sizeof(float);
    for (const int64_t size : section.shape) bytes *= static_cast<double>(size);
    needed += bytes;
  }
  if (needed != static_cast<double>(file.bytes().size()))
    fail(path, fmt::format("{} bytes long, the header asks for {:.0f}", file.bytes().size(), needed));
  size_t position = kHeaderBytes;
  for (const Section& section : sections) {
    const size_t bytes = static_cast<size_t>(element_count(section.shape)) * sizeof(float);
    if (section.name != nullptr) {
      const auto source = file.bytes().subspan(position, bytes);
      result.tensors[section.name] = {FileType::f32, section.shape, {source.begin(), source.end()}};
    }
    position += bytes;
  }
  return result;
}

}  // namespace fp4sim::io
