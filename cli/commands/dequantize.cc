// fp4sim dequantize: the values of packed tensors, without OCC's residual and in the rotated domain, as quantize's
// --decoded has them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <new>

#include "cli/commands/commands.h"
#include "cli/commands/dequantize_reader.h"
#include "cli/commands/piece_options.h"
#include "cli/commands/quantize_cut.h"
#include "cli/commands/work_progress.h"
#include "cli/io/ggml_blocks.h"
#include "cli/io/npy.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

struct Options {
  std::string input, out;
  PieceOptions pieces;
};

/// What is written: values of a tensor from an element on.
using ValueSink = std::function<void(int64_t first_element, std::span<const float>)>;

/// Decodes one tensor piece by piece.
class Decoder {
 public:
  Decoder(Backend& backend, const PackedFile& file, int64_t piece_bytes)
      : runner_(backend), file_(file), piece_bytes_(piece_bytes) {}

  void decode(const PackedEntry& entry, const ValueSink& sink) {
    file_.layout == PackedLayout::ggml ? decode_blocks(entry, sink) : decode_packed(entry, sink);
  }

 private:
  void decode_blocks(const PackedEntry& entry, const ValueSink& sink) const {
    const io::GgmlLayout& layout = io::ggml_layout(entry.packed.spec);
    const int64_t blocks = element_count(entry.packed.shape) / layout.block_elements;
    const int64_t step = std::max<int64_t>(piece_bytes_ / 4 / layout.block_elements, 1);
    for (int64_t first = 0; first < blocks; first += step) {
      const int64_t count = std::min(step, blocks - first);
      std::vector<uint8_t> bytes(static_cast<size_t>(count * layout.block_bytes));
      std::vector<float> values(static_cast<size_t>(count * layout.block_elements));
      file_.read(entry.parts.at(kBlocks), first * layout.block_bytes, std::as_writable_bytes(std::span(bytes)));
      io::ggml_decode(layout, bytes, values);
      sink(first * layout.block_elements, values);
    }
  }

  void decode_packed(const PackedEntry& entry, const ValueSink& sink) {
    const Cut cut = cut_for_decode(entry.packed, piece_bytes_);
    for (const Piece& piece : cut.pieces) {
      const std::vector<float> values = decode_piece(entry, cut, piece);
      sink(cut.first_element(piece), std::span(values).first(static_cast<size_t>(cut.count(piece))));
    }
  }

  /// `count` bytes of a part from `offset` on, zeros where the cut's padding leaves the part.
  std::vector<std::byte> bytes_of(const io::TensorEntry& part, int64_t offset, int64_t count) const {
    std::vector<std::byte> bytes(static_cast<size_t>(count), std::byte{0});
    const int64_t stored = std::min(count, part.end - part.begin - offset);
    file_.read(part, offset, std::span(bytes).first(static_cast<size_t>(stored)));
    return bytes;
  }

  std::vector<float> decode_piece(const PackedEntry& entry, const Cut& cut, const Piece& piece) {
    const ValueType type = cut.type_of(piece);
    const int64_t row_bytes = code_row_bytes(type);
    std::vector<std::vector<std::byte>> parts{
        bytes_of(entry.parts.at(kCodes), piece.first_row * row_bytes, cut.rows_of(piece) * row_bytes)};
    const std::span<const uint8_t> codes(reinterpret_cast<const uint8_t*>(parts[0].data()), parts[0].size());
    check_codes(codes, row_bytes, cut.cols * type.spec.element.bits);
    if (!is_unscaled(type.spec)) {
      const int64_t width = type.spec.scale == ScaleFormat::fp32 ? 4 : 1;
      const ScaleRange scales = cut.scales_of(piece);
      parts.push_back(bytes_of(entry.parts.at(kScales), width * scales.first, width * scales.count));
      check_scales(parts.back(), type.spec);
    }
    if (has_tensor_scale(type.spec)) {
      parts.push_back(bytes_of(entry.parts.at(kTensorScale), 0, 4));
      QuantSpec f32;
      f32.scale = ScaleFormat::fp32;
      check_scales(parts.back(), f32);
    }
    if (type.spec.element.bias_auto) {
      const auto bias = std::as_bytes(std::span(&entry.bias, 1));
      parts.emplace_back(bias.begin(), bias.end());
    }
    Graph graph;
    const ValueId q = add_value(graph, type, ValueKind::input, "q");
    graph.results = add_node(graph, Op::dequantize, {q}, {}, "dequantize");
    std::vector<HostPart> inputs(parts.begin(), parts.end());
    runner_.run(graph, {inputs});
    return runner_.part<float>(graph.results[0]);
  }

  GraphRunner runner_;
  const PackedFile& file_;
  int64_t piece_bytes_;
};

void to_npy(const Options& o, const PackedFile& file, Decoder& decoder, WorkProgress& progress) {
  if (file.tensors.size() > 1)
    throw UsageError(fmt::format("a .npy file holds one tensor, {} has {}: choose a .safetensors file", o.input,
                                 file.tensors.size()));
  const PackedEntry& entry = file.tensors[0];
  io::NpyWriter out(o.out, entry.packed.shape);
  decoder.decode(entry, [&](int64_t first, std::span<const float> values) {
    out.write(first, values);
    progress.step();
  });
  out.commit();
}

void to_safetensors(const Options& o, const PackedFile& file, Decoder& decoder, WorkProgress& progress) {
  QuantizeJob::Items items;
  for (const PackedEntry& entry : file.tensors) items[entry.name] = {io::FileType::f32, entry.packed.shape};
  io::SafetensorsWriter out(o.out, items, {});
  for (const PackedEntry& entry : file.tensors)
    decoder.decode(entry, [&](int64_t first, std::span<const float> values) {
      out.write(entry.name, 4 * first, std::as_bytes(values));
      progress.step();
    });
  out.commit();
}

int64_t pieces_of(const PackedFile& file, int64_t piece_bytes) {
  int64_t pieces = 0;
  for (const PackedEntry& entry : file.tensors) pieces += 4 * element_count(entry.packed.shape) / piece_bytes + 1;
  return pieces;
}

void run(const Options& o) {
  const bool npy = o.out.ends_with(".npy");
  if (!npy && !o.out.ends_with(".safetensors"))
    throw UsageError("--out must name a .npy or .safetensors file, got `" + o.out + "`");
  if (!o.input.ends_with(".safetensors")) throw UsageError("input `" + o.input + "` must be a .safetensors file");
  if (io::is_same_file(o.input, o.out)) throw UsageError("output `" + o.out + "` is the input file");
  const auto backend = make_piece_backend(o.pieces);
  const PackedFile file = open_packed(o.input);
  WorkProgress progress("pieces", pieces_of(file, o.pieces.piece_bytes));
  Decoder decoder(*backend, file, o.pieces.piece_bytes);
  try {
    npy ? to_npy(o, file, decoder, progress) : to_safetensors(o, file, decoder, progress);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find(o.input) != std::string::npos || what.find(o.out) != std::string::npos) throw;
    throw Error(fmt::format("{}: {}", o.input, what));
  } catch (const std::bad_alloc&) {
    throw out_of_memory(o.pieces);
  }
}

}  // namespace

void add_dequantize_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("dequantize", "Decode the packed tensors of a file that quantize wrote");
  command->add_option("input", o->input, "The .safetensors file, of layout fp4sim or ggml")->required();
  command->add_option("--out", o->out, "A .npy file (f4, one tensor) or .safetensors (F32, all tensors)")->required();
  add_piece_options(*command, o->pieces);
  command->footer(
      "The values are those of quantize's --decoded: without the residual of +occ, and rotated under +had. Codes and "
      "scales that no quantizer writes are an error.");
  command->callback([o] { run(*o); });
}

}  // namespace fp4sim::cli
