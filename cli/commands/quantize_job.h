// One tensor on its way from a file into an output file of packed values.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cli/commands/quant_stats.h"
#include "cli/commands/quantize_call.h"
#include "cli/io/safetensors.h"
#include "cli/io/tensor_source.h"

namespace fp4sim::cli {

enum class PackedLayout : uint8_t { fp4sim, ggml };
const char* layout_name(PackedLayout layout);

struct QuantizeSettings {
  QuantSpec spec;
  Axis axis = Axis::last;
  PackedLayout layout = PackedLayout::fp4sim;
  RandomState random;
  bool statistics = true;
  int64_t piece_bytes = 0;     // of binary32 values that are held at once
  std::string scratch_folder;  // for OCC along columns or of a whole tensor
};

/// Where the decoded values go, as binary32 in row-major order; may be empty.
using DecodedSink = std::function<void(int64_t first_element, std::span<const float>)>;
using PieceDone = std::function<void()>;

class QuantizeJob {
 public:
  using Items = std::map<std::string, io::SafetensorsWriter::Item>;
  virtual ~QuantizeJob() = default;
  /// Calls of PieceDone that prepare and write will make.
  virtual int64_t pieces() const = 0;
  /// The first pass over the tensor, where sizes, the bias or an amax need one. Then items() and metadata() are valid.
  virtual void prepare(const PieceDone& done) = 0;
  virtual Items items() const = 0;
  virtual std::map<std::string, std::string> metadata() const = 0;
  virtual QuantStats write(io::SafetensorsWriter& out, const DecodedSink& decoded, const PieceDone& done) = 0;
};

/// The job of a tensor. Throws Error, naming the tensor, where its shape does not go with spec, axis or layout.
std::unique_ptr<QuantizeJob> make_quantize_job(Backend& backend, const io::TensorSource& source,
                                               const QuantizeSettings& settings);
std::unique_ptr<QuantizeJob> make_ggml_job(const io::TensorSource& source, const QuantizeSettings& settings);

}  // namespace fp4sim::cli
