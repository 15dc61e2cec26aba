// What quantization did to a tensor: sums over its elements, and the figures made of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/contract/quant_spec.h"

namespace fp4sim::cli {

/// Elements are compared in row-major order in binary64, so that the figures do not depend on pieces or threads.
///
/// The reference of an element is the file's value after the spec's Hadamard rotation and before OCC (under +sr34 three
/// quarters of it: decoded values carry no 4/3); its approximation is what the output holds: the decoded value plus,
/// where OCC clamped, the decoded residual.
struct QuantStats {
  int64_t elements = 0;
  int64_t excluded = 0;  // reference or approximation not finite: these are in no sum
  double xx = 0, qq = 0, xq = 0, dd = 0;
  int64_t saturated = 0;           // finite operand, code ±max_normal, decoded magnitude below the operand's
  int64_t flushed_to_zero = 0;     // finite nonzero operand, decoded value ±0
  int64_t nonfinite_blocks = 0;    // scales that are NaN: blocks with a NaN or an Inf
  int64_t overflow_on_decode = 0;  // finite operand and code, decoded value infinite
  int64_t residual_entries = 0;    // elements that OCC clamped
  int64_t stored_bytes = 0;        // of all output tensors: codes, scales, tensor scale, residual

  void add(const QuantStats& other);
  /// Σ d²/n over the elements that are not excluded, d = approximation − reference.
  double mse() const;
  /// 10·log10(Σ x²/Σ d²), in decibel: Inf without error.
  double snr_db() const;
  /// Σ x·q/(‖x‖·‖q‖).
  double cosine() const;
  double bits_per_element() const;
};

/// The values of a stretch of elements; `residual` is null without OCC.
struct StatsValues {
  const float* reference;
  const float* operand;  // given to quantize
  const float* decoded;
  const float* residual;
};

/// Adds `count` elements; code(i) is the element's code.
template <class Code>
void add_elements(QuantStats& stats, const QuantSpec& spec, const ElementFormat& element, int64_t count,
                  const StatsValues& v, const Code& code);

/// The largest magnitude bits of a code without its sign: whether |code| is max_normal.
bool is_max_normal(uint32_t code, const ElementFormat& f);
bool is_infinity(uint32_t code, const ElementFormat& f);

/// The code at an index of a row of the stored layout (§4.4).
uint32_t code_at(const uint8_t* row, int64_t index, int bits);

struct NamedStats {
  std::string name;
  QuantStats stats;
};
/// An aligned table, a line each tensor and the total.
std::string stats_text(const std::vector<NamedStats>& tensors);
/// {"tensors": {NAME: {…}}, "total": {…}}; figures that are not finite are "NaN", "Inf" and "-Inf".
std::string stats_json(const std::vector<NamedStats>& tensors);
/// The definitions, for the help text.
extern const char* const kStatsHelp;

template <class Code>
void add_elements(QuantStats& stats, const QuantSpec& spec, const ElementFormat& element, int64_t count,
                  const StatsValues& v, const Code& code) {
  const double factor = spec.sr34 ? 0.75 : 1.0;
  const auto finite = [](double x) { return x - x == 0; };
  for (int64_t i = 0; i < count; ++i) {
    const double x = factor * static_cast<double>(v.reference[i]), operand = factor * static_cast<double>(v.operand[i]);
    const double decoded = v.decoded[i];
    const bool clamped = v.reference[i] < v.operand[i] || v.reference[i] > v.operand[i];
    const double q = clamped && v.residual != nullptr ? static_cast<double>(v.decoded[i] + v.residual[i]) : decoded;
    if (finite(x) && finite(q)) {
      const double d = q - x;
      stats.xx += x * x;
      stats.qq += q * q;
      stats.xq += x * q;
      stats.dd += d * d;
    } else {
      ++stats.excluded;
    }
    if (!finite(operand)) continue;
    const double size = operand < 0 ? -operand : operand, decoded_size = decoded < 0 ? -decoded : decoded;
    if (size > 0 && decoded == 0) ++stats.flushed_to_zero;
    if (size > decoded_size && is_max_normal(code(i), element)) ++stats.saturated;
    if (decoded_size > 0 && !finite(decoded) && !is_infinity(code(i), element)) ++stats.overflow_on_decode;
  }
  stats.elements += count;
}

}  // namespace fp4sim::cli
