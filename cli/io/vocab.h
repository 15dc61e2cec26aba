// A vocabulary: the text piece of every token id, read from `id<TAB>piece` lines.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp4sim::io {

/// Pieces in SentencePiece's spelling: U+2581 stands for a space, <0xHH> for one byte, <s> and </s> for begin and end.
class Vocab {
 public:
  /// Throws Error where a piece list is empty.
  explicit Vocab(std::vector<std::string> pieces);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  /// The id of <s>, or −1 without one.
  int32_t begin_id() const { return begin_id_; }

  /// The bytes of the ids' pieces; <s>, </s> and <unk> print nothing and the space in front of the first word is
  /// dropped. Throws Error for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;

  /// Token ids of a text, <s> first where there is one: the longest piece at each position, bytes where no piece fits.
  /// Throws Error where a byte has no piece. (Longest match needs no merge scores; other ids may spell the same text.)
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  std::string bytes_of_piece(int32_t id) const;

  std::vector<std::string> pieces_;
  std::map<std::string, int32_t, std::less<>> id_of_bytes_;
  size_t longest_ = 0;  // bytes
  int32_t begin_id_ = -1;
};

/// Reads a vocabulary file; ids must be 0, 1, 2 … in order. Throws Error naming the file and the line.
Vocab read_vocab(const std::string& path);

}  // namespace fp4sim::io
