#include "cli/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "cli/io/files.h"
#include "reference/contract/error.h"

namespace fp4sim::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the array's bytes, as NumPy writes it

struct NpyType {
  const char* descr;
  FileType type;
};
constexpr NpyType kNpyTypes[] = {{"<f4", FileType::f32}, {"<f2", FileType::f16}, {"<i4", FileType::i32}};

struct NpyHeader {
  std::optional<FileType> type;
  std::optional<bool> fortran;
  std::optional<Shape> shape;
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(fmt::format("{}: not a valid .npy file: {}", path, what));
}

/// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.type) {
        header.type = type_of(quoted());
      } else if (key == "fortran_order" && !header.fortran) {
        header.fortran = boolean();
      } else if (key == "shape" && !header.shape) {
        header.shape = shape();
      } else {
        fail(path_, "unknown or repeated key '" + key + "' in the header");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail(path_, "text behind the header's dictionary");
    if (!header.type || !header.fortran || !header.shape) fail(path_, "the header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(path_, fmt::format("'{}' expected at byte {} of the header", c, at_));
  }
  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = text_.find(quote, at_ + 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos || end - at_ > 64)
      fail(path_, fmt::format("a quoted word expected at byte {} of the header", at_));
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail(path_, "fortran_order is neither True nor False");
  }
  Shape shape() {
    Shape sizes;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc{} || size < 0) fail(path_, fmt::format("a size expected at byte {} of the header", at_));
      at_ = static_cast<size_t>(end - text_.data());
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  FileType type_of(const std::string& descr) const {
    for (const NpyType& row : kNpyTypes)
      if (descr == row.descr) return row.type;
    throw Error(fmt::format("{}: .npy type '{}' is not one of <f4, <f2, <i4", path_, descr));
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

struct HeaderRange {
  size_t begin, length;
};

/// `file` holds the first bytes of `file_size`.
HeaderRange header_range(std::span<const std::byte> file, size_t file_size, const std::string& path) {
  if (file.size() < 10 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    fail(path, "it does not begin with the .npy magic");
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(file[i]); };
  const size_t major = byte(6);
  if (major < 1 || major > 3) fail(path, fmt::format("format version {}.{}", major, byte(7)));
  const size_t begin = major == 1 ? 10 : 12;
  if (file.size() < begin) fail(path, "truncated header");
  const size_t length = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > file_size - begin)
    fail(path, fmt::format("header of {} bytes, but only {} bytes follow (truncated?)", length, file_size - begin));
  if (length > file.size() - begin) fail(path, fmt::format("header of {} bytes is too long", length));
  return {begin, length};
}

/// Copies elements from one order to the other; index runs row-major.
void reorder(const std::byte* from, NpyOrder from_order, std::byte* to, NpyOrder to_order, const Shape& shape,
             size_t width) {
  const auto from_strides = strides_of(shape, from_order);
  const auto to_strides = strides_of(shape, to_order);
  Shape index(shape.size(), 0);
  const int64_t count = element_count(shape);
  for (int64_t n = 0; n < count; ++n) {
    int64_t source = 0;
    int64_t target = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      source += index[axis] * from_strides[axis];
      target += index[axis] * to_strides[axis];
    }
    std::memcpy(to + static_cast<size_t>(target) * width, from + static_cast<size_t>(source) * width, width);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

/// The checked layout of a file of `file_size` bytes that begins with `start`.
NpyLayout layout_of(std::span<const std::byte> start, size_t file_size, const std::string& path) {
  const HeaderRange range = header_range(start, file_size, path);
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + range.begin, range.length);
  const NpyHeader header = HeaderParser(text, path).parse();
  const size_t offset = range.begin + range.length, data_bytes = file_size - offset;
  const auto count = checked_element_count(*header.shape);
  const auto width = static_cast<size_t>(file_type_bytes(*header.type));
  // divide instead of multiplying: a huge shape must not overflow
  if (!count || static_cast<size_t>(*count) > data_bytes / width || static_cast<size_t>(*count) * width != data_bytes)
    fail(path, fmt::format("shape {} of {}-byte elements does not match the {} bytes behind the header",
                           to_string(*header.shape), width, data_bytes));
  return {*header.type, *header.shape, *header.fortran ? NpyOrder::fortran : NpyOrder::c, static_cast<int64_t>(offset)};
}

}  // namespace

std::vector<int64_t> strides_of(const Shape& shape, NpyOrder order) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t axis = order == NpyOrder::fortran ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

HostTensor read_npy(const std::string& path) {
  const MappedFile file(path);
  const NpyLayout layout = layout_of(file.bytes(), file.bytes().size(), path);
  const auto data = file.bytes().subspan(static_cast<size_t>(layout.data_offset));
  HostTensor tensor{layout.type, layout.shape, {data.begin(), data.end()}};
  if (layout.order == NpyOrder::fortran)
    reorder(data.data(), NpyOrder::fortran, tensor.bytes.data(), NpyOrder::c, tensor.shape,
            static_cast<size_t>(file_type_bytes(layout.type)));
  return tensor;
}

NpyLayout read_npy_layout(const InputFile& file) {
  constexpr int64_t kLongestHeader = 12 + 65536;
  std::vector<std::byte> start(static_cast<size_t>(std::min(file.size(), kLongestHeader)));
  file.read(0, start);
  return layout_of(start, static_cast<size_t>(file.size()), file.path());
}

std::string npy_header(FileType type, const Shape& shape, NpyOrder order, const std::string& path) {
  const char* descr = nullptr;
  for (const NpyType& row : kNpyTypes)
    if (row.type == type) descr = row.descr;
  if (descr == nullptr)
    throw Error(fmt::format("cannot write {}: .npy files hold F32, F16 or I32, not {}", path, file_type_name(type)));
  std::string sizes;
  for (const int64_t size : shape) sizes += fmt::format("{}, ", size);
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  if (shape.size() == 1) sizes.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", descr,
                                   order == NpyOrder::fortran ? "True" : "False", sizes);
  const size_t prefix = kMagic.size() + 4;
  header.resize((prefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - prefix - 1, ' ');
  header += '\n';
  if (header.size() > 0xFFFF) throw Error(fmt::format("cannot write {}: {} axes are too many", path, shape.size()));
  std::string start(kMagic);
  for (const size_t byte : {size_t{1}, size_t{0}, header.size() & 0xFF, header.size() >> 8})
    start += static_cast<char>(byte);
  return start + header;
}

void write_npy(const std::string& path, const HostTensor& tensor, NpyOrder order) {
  const std::string header = npy_header(tensor.type, tensor.shape, order, path);
  std::vector<std::byte> reordered;
  std::span<const std::byte> data = tensor.bytes;
  if (order == NpyOrder::fortran) {
    reordered.resize(tensor.bytes.size());
    reorder(tensor.bytes.data(), NpyOrder::c, reordered.data(), NpyOrder::fortran, tensor.shape,
            static_cast<size_t>(file_type_bytes(tensor.type)));
    data = reordered;
  }
  const std::span<const std::byte> pieces[] = {bytes_of(header), data};
  write_file_atomic(path, pieces);
}

NpyWriter::NpyWriter(const std::string& path, const Shape& shape)
    : header_(npy_header(FileType::f32, shape, NpyOrder::c, path)), file_(path) {
  file_.write(0, bytes_of(header_));
}

void NpyWriter::write(int64_t first, std::span<const float> values) {
  file_.write(static_cast<int64_t>(header_.size()) + 4 * first, std::as_bytes(values));
}

}  // namespace fp4sim::io
