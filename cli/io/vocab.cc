#include "cli/io/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/io/files.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kSilent[] = {"<unk>", "<s>", "</s>"};

bool is_silent(std::string_view piece) {
  return std::find(std::begin(kSilent), std::end(kSilent), piece) != std::end(kSilent);
}

/// The byte of <0xHH>, or −1 for another piece.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
  int value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return error == std::errc{} && end == piece.data() + 5 ? value : -1;
}

}  // namespace

Vocab::Vocab(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  if (pieces_.empty()) throw Error("a vocabulary needs at least one piece");
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (pieces_[i] == "<s>" && begin_id_ < 0) begin_id_ = id;
    const std::string bytes = bytes_of_piece(id);
    if (bytes.empty()) continue;
    // a written piece wins over the byte piece of the same text; of equal pieces the first
    const auto [at, added] = id_of_bytes_.try_emplace(bytes, id);
    if (!added && byte_of(pieces_[static_cast<size_t>(at->second)]) >= 0 && byte_of(pieces_[i]) < 0) at->second = id;
    longest_ = std::max(longest_, bytes.size());
  }
}

std::string Vocab::bytes_of_piece(int32_t id) const {
  const std::string& piece = pieces_[static_cast<size_t>(id)];
  if (is_silent(piece)) return {};
  if (const int byte = byte_of(piece); byte >= 0) return std::string(1, static_cast<char>(byte));
  std::string bytes;
  for (size_t i = 0; i < piece.size();) {
    const bool space = piece.compare(i, kSpace.size(), kSpace) == 0;
    bytes += space ? ' ' : piece[i];
    i += space ? kSpace.size() : 1;
  }
  return bytes;
}

std::string Vocab::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= size())
      throw Error(fmt::format("token id {} is outside the vocabulary of {} pieces", id, size()));
    text += bytes_of_piece(id);
  }
  return !text.empty() && text.front() == ' ' ? text.substr(1) : text;
}

std::vector<int32_t> Vocab::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  if (begin_id_ >= 0) ids.push_back(begin_id_);
  if (text.empty()) return ids;
  const std::string spaced = " " + std::string(text);
  for (size_t at = 0; at < spaced.size();) {
    size_t length = std::min(longest_, spaced.size() - at);
    auto found = id_of_bytes_.end();
    for (; length > 0 && found == id_of_bytes_.end(); --length)
      found = id_of_bytes_.find(std::string_view(spaced).substr(at, length));
    if (found == id_of_bytes_.end())
      throw Error(fmt::format("no piece of the vocabulary spells byte 0x{:02X} of the prompt",
                              static_cast<uint8_t>(spaced[at])));
    ids.push_back(found->second);
    at += found->first.size();
  }
  return ids;
}

Vocab read_vocab(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    size_t id = 0;
    const auto [after, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    const auto digits = static_cast<size_t>(after - line.data());
    if (error != std::errc{} || digits >= line.size() || line[digits] != '\t' || id != pieces.size())
      throw Error(fmt::format("{}: line {} is not '{}<TAB>piece'", path, pieces.size() + 1, pieces.size()));
    pieces.emplace_back(line.substr(digits + 1));
    begin = end + 1;
  }
  if (pieces.empty()) throw Error(fmt::format("{}: the vocabulary is empty", path));
  return Vocab(std::move(pieces));
}

}  // namespace fp4sim::io
