#include "cli/commands/distributions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/contract/error.h"
#include "reference/contract/fp_environment.h"
#include "reference/contract/host_math.h"
#include "reference/contract/philox.h"
#include "reference/contract/text_cursor.h"

namespace fp4sim::cli {
namespace {

using host_math::cos64, host_math::log64, host_math::pow64;

constexpr double kTwoPi = 0x1.921fb54442d18p+2;
constexpr double kLargest = 0x1p60;  // of a scale parameter: values stay far inside binary32

/// Box–Muller.
double standard_normal(Uniforms r) { return std::sqrt(-2.0 * log64(r.u)) * cos64(kTwoPi * r.v); }

double normal(const double* p, Uniforms r) { return p[0] * standard_normal(r); }

/// Bailey (1994): the polar method for any number of degrees of freedom.
double student_t(const double* p, Uniforms r) {
  return std::sqrt(p[0] * (pow64(r.u, -2.0 / p[0]) - 1.0)) * cos64(kTwoPi * r.v);
}

double laplace(const double* p, Uniforms r) {
  const double magnitude = p[0] * -log64(r.u);
  return r.v < 0.5 ? -magnitude : magnitude;
}

double outlier_channels(const double*, Uniforms r) { return standard_normal(r); }

double log_uniform(const double* p, Uniforms r) {
  const double magnitude = pow64(2.0, p[0] + (p[1] - p[0]) * r.u);
  return r.v < 0.5 ? -magnitude : magnitude;
}

uint32_t stream_of_row(const DistributionRow& row, const char* part) {
  return stream_of("error/" + std::string(row.name) + part);
}

const DistributionParameter* find_parameter(const DistributionRow& row, int index) {
  const bool exists = index < kDistributionParameters && row.parameters[index].name != nullptr;
  return exists ? &row.parameters[index] : nullptr;
}

std::string name_list() {
  std::string names;
  for (const DistributionRow& row : kDistributions) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

/// The index of the parameter whose `name=` comes next, consumed; −1 if none does.
int accept_name(TextCursor& cursor, const DistributionRow& row) {
  for (int i = 0; find_parameter(row, i) != nullptr; ++i)
    if (cursor.accept(std::string(row.parameters[i].name) + "=")) return i;
  return -1;
}

/// "(5,factor=3)": positional values first, then named ones.
void parse_parameters(TextCursor& cursor, Distribution& d) {
  bool given[kDistributionParameters] = {}, named = false;
  for (int next = 0; next == 0 || cursor.accept(","); ++next) {
    const size_t begin = cursor.position();
    const int found = accept_name(cursor, *d.row);
    if (named && found < 0) cursor.fail("a parameter name and `=`");
    named = found >= 0;
    const int index = named ? found : next;
    const DistributionParameter* parameter = find_parameter(*d.row, index);
    if (parameter == nullptr) cursor.fail("`)`: " + std::string(d.row->name) + " has no more parameters");
    if (std::exchange(given[index], true)) cursor.fail_at(begin, std::string(parameter->name) + " is given twice");
    const size_t number = cursor.position();
    if (!cursor.accept_number(d.parameters[index])) cursor.fail("a number for " + std::string(parameter->name));
    if (!(d.parameters[index] >= parameter->lowest && d.parameters[index] <= parameter->highest))
      cursor.fail_at(number, std::string(parameter->name) + " must be from " + shortest_text(parameter->lowest) +
                                 " to " + shortest_text(parameter->highest));
  }
  cursor.expect(")", "`,` or `)`");
}

}  // namespace

const DistributionRow kDistributions[5] = {
    {"normal", {{"std", 1, 0x1p-60, kLargest}, {}}, normal, false, "normal, mean 0, standard deviation std"},
    {"student-t", {{"nu", 3, 0.5, 1000}, {}}, student_t, false, "Student's t with nu degrees of freedom: heavy tails"},
    {"laplace", {{"scale", 1, 0x1p-60, kLargest}, {}}, laplace, false, "Laplace, density exp(-|x|/scale)/(2 scale)"},
    {"outlier-channels",
     {{"share", 0.01, 0, 1}, {"factor", 20, 0x1p-60, kLargest}},
     outlier_channels,
     true,
     "standard normal, a share of the columns multiplied by factor"},
    {"log-uniform",
     {{"low", -8, -100, 100}, {"high", 8, -100, 100}},
     log_uniform,
     false,
     "random sign, |x| = 2^(uniform from low to high)"},
};

Distribution parse_distribution(std::string_view text) {
  const FpEnvironment environment;  // decimal fractions must not follow the caller's rounding mode
  TextCursor cursor("distribution", text);
  Distribution d;
  for (const DistributionRow& row : kDistributions)
    if (cursor.peek_word() == row.name) d.row = &row;
  if (d.row == nullptr) cursor.fail("one of " + name_list());
  cursor.accept(d.row->name);
  for (int i = 0; i < kDistributionParameters; ++i) d.parameters[i] = d.row->parameters[i].otherwise;
  if (cursor.accept("(")) parse_parameters(cursor, d);
  if (!cursor.at_end()) cursor.fail("the end");
  if (d.row->value == log_uniform && d.parameters[0] > d.parameters[1])
    throw UsageError("distribution `" + std::string(text) + "`: low must not exceed high");
  return d;
}

std::string distribution_text(const Distribution& d) {
  std::string list;
  for (int i = 0; const DistributionParameter* parameter = find_parameter(*d.row, i); ++i)
    list += (list.empty() ? "" : ",") + std::string(parameter->name) + "=" + shortest_text(d.parameters[i]);
  return d.row->name + ("(" + list + ")");
}

Uniforms uniforms_at(uint64_t seed, uint32_t stream, int64_t i) {
  const host_math::Words r = host_math::philox(seed, static_cast<uint64_t>(i), stream, 0);
  const auto uniform = [](uint32_t high, uint32_t low) {
    const auto bits = static_cast<double>((uint64_t{high} << 21) + (low >> 11));  // 53 bits
    return bits * 0x1p-53 + 0x1p-54;
  };
  return {uniform(r.w[0], r.w[1]), uniform(r.w[2], r.w[3])};
}

std::vector<int64_t> outlier_columns(const Distribution& d, int64_t columns, uint64_t seed) {
  if (!d.row->outlier_columns || d.parameters[0] == 0) return {};
  const uint32_t stream = stream_of_row(*d.row, "/columns");
  std::vector<std::pair<double, int64_t>> keys;
  for (int64_t j = 0; j < columns; ++j) keys.emplace_back(uniforms_at(seed, stream, j).u, j);
  std::sort(keys.begin(), keys.end());
  const auto rounded = static_cast<int64_t>(d.parameters[0] * static_cast<double>(columns) + 0.5);
  keys.resize(static_cast<size_t>(std::clamp<int64_t>(rounded, std::min<int64_t>(1, columns), columns)));
  std::vector<int64_t> chosen;
  for (const auto& [key, column] : keys) chosen.push_back(column);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<float> draw(const Distribution& d, int64_t rows, int64_t columns, uint64_t seed) {
  const FpEnvironment environment;
  std::vector<double> factors(static_cast<size_t>(columns), 1.0);
  for (const int64_t column : outlier_columns(d, columns, seed)) factors[static_cast<size_t>(column)] = d.parameters[1];
  const uint32_t stream = stream_of_row(*d.row, "");
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(d.row->value(d.parameters, uniforms_at(seed, stream, i)) *
                                                        factors[static_cast<size_t>(i % columns)]);
  return values;
}

}  // namespace fp4sim::cli
