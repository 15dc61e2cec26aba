// quantize --layout ggml: ggml's own quantizer and block layouts, one stretch of blocks after the other.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/packed_file.h"
#include "cli/io/ggml_blocks.h"
#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

class GgmlJob final : public QuantizeJob {
 public:
  GgmlJob(const io::TensorSource& source, const QuantizeSettings& settings)
      : source_(source), settings_(settings), layout_(io::ggml_layout(settings.spec)) {
    if (settings.axis != Axis::last) throw UsageError("layout ggml has blocks along the last axis only");
    if (source.shape().empty() || source.shape().back() % layout_.block_elements != 0)
      throw Error(fmt::format("shape {}: the last axis is not made of ggml blocks of {} elements",
                              to_string(source.shape()), layout_.block_elements));
    elements_ = element_count(source.shape());
    stretch_ = std::max<int64_t>(settings.piece_bytes / 4 / layout_.block_elements, 1) * layout_.block_elements;
  }

  int64_t pieces() const override { return (elements_ + stretch_ - 1) / stretch_; }
  void prepare(const PieceDone&) override {}

  Items items() const override {
    Shape shape = source_.shape();
    shape.back() /= layout_.block_elements;
    shape.push_back(layout_.block_bytes);
    return {{source_.name() + kBlocks, {io::FileType::u8, shape}}};
  }
  std::map<std::string, std::string> metadata() const override {
    return {{source_.name() + kShapeKey, shape_text(source_.shape())}};
  }

  QuantStats write(io::SafetensorsWriter& out, const DecodedSink& decoded, const PieceDone& done) override {
    QuantStats stats;
    stats.stored_bytes = bytes_of(elements_);
    for (int64_t first = 0; first < elements_; first += stretch_) {
      const int64_t count = std::min(stretch_, elements_ - first);
      std::vector<float> x(static_cast<size_t>(count)), q(x.size());
      std::vector<uint8_t> blocks(static_cast<size_t>(bytes_of(count)));
      source_.read(first, count, x.data());
      encode(x, blocks);
      io::ggml_decode(layout_, blocks, q);
      out.write(source_.name() + kBlocks, bytes_of(first), std::as_bytes(std::span(blocks)));
      if (settings_.statistics)
        add_elements(stats, settings_.spec, settings_.spec.element, count, {x.data(), x.data(), q.data(), nullptr},
                     [&](int64_t i) {
                       const int64_t n = layout_.block_elements;
                       return io::ggml_code(layout_, blocks.data() + i / n * layout_.block_bytes, i % n);
                     });
      if (decoded) decoded(first, q);
      done();
    }
    return stats;
  }

 private:
  void encode(std::span<const float> x, std::span<uint8_t> blocks) const {
    try {
      io::ggml_encode(layout_, x, blocks);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: tensor '{}': {}", source_.path(), source_.name(), error.what()));
    }
  }
  int64_t bytes_of(int64_t elements) const { return elements / layout_.block_elements * layout_.block_bytes; }

  const io::TensorSource& source_;
  const QuantizeSettings& settings_;
  const io::GgmlLayout& layout_;
  int64_t elements_ = 0, stretch_ = 0;  // elements; those of a piece
};

}  // namespace

std::unique_ptr<QuantizeJob> make_ggml_job(const io::TensorSource& source, const QuantizeSettings& settings) {
  return std::make_unique<GgmlJob>(source, settings);
}

}  // namespace fp4sim::cli
