#include "cli/commands/quantize_cut.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "reference/contract/error.h"

namespace fp4sim::cli {
namespace {

constexpr int64_t kWrap = 65536;     // columns of a wrapped row
constexpr int64_t kLeastWrap = 128;  // every block and Hadamard size divides it
constexpr int64_t kCopies = 8;       // of the values of a piece in memory

bool chooses_by_error(ScaleRule rule) {
  return rule == ScaleRule::opt || rule == ScaleRule::four_over_six_mse || rule == ScaleRule::four_over_six_mae;
}

Span span_of(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  if (s.granularity == Granularity::tensor || s.element.bias_auto) return Span::tensor;
  const bool last = packed.axis == Axis::last;
  const bool columns = s.granularity == (last ? Granularity::col : Granularity::row);
  return columns ? Span::columns : Span::piece;
}

/// Rows that a piece must hold together.
int64_t row_step(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  const bool first = packed.axis == Axis::first;
  int64_t step = 1;
  if (s.granularity == Granularity::tile2d || (first && s.granularity == Granularity::block)) step = s.block_size;
  if (first) step = std::max<int64_t>(step, s.hadamard.n);  // powers of two
  return step;
}

/// A row may be wrapped if its parts are quantized alike wherever they lie.
bool wraps(const ValueType& packed) {
  const QuantSpec& s = packed.spec;
  const bool parts_alike =
      is_unscaled(s) || s.granularity == Granularity::block || s.granularity == Granularity::tensor;
  return packed.axis == Axis::last && parts_alike && !s.occ.enabled;
}

/// The columns of the wrapped rows, or 0 where rows stay as they are.
int64_t wrapped_columns(const Cut& cut, int64_t piece_bytes) {
  const int64_t fitting = piece_bytes / 4;
  if (cut.cols <= fitting) return 0;
  int64_t wrap = kWrap;
  while (wrap > fitting && wrap > kLeastWrap) wrap /= 2;
  if (cut.matrices * cut.rows == 1) return wrap;
  while (wrap >= kLeastWrap && cut.cols % wrap != 0) wrap /= 2;
  return wrap >= kLeastWrap ? wrap : 0;
}

/// `group` rows are cut together: a matrix, or all rows.
void add_pieces(Cut& cut, int64_t first_row, int64_t group, int64_t rows_per_piece) {
  for (int64_t r = 0; r < group; r += rows_per_piece)
    cut.pieces.push_back({first_row + r, 1, std::min(rows_per_piece, group - r)});
}

void make_pieces(Cut& cut, int64_t piece_bytes, int64_t step, bool whole) {
  if (cut.elements == 0) {
    cut.pieces = {{0, cut.matrices, cut.rows}};
    return;
  }
  const int64_t row_bytes = 4 * cut.cols;
  const int64_t matrices_per_piece = piece_bytes / row_bytes / cut.rows;
  if (matrices_per_piece >= 1 || whole) {
    const int64_t k = std::max<int64_t>(matrices_per_piece, 1);
    for (int64_t m = 0; m < cut.matrices; m += k)
      cut.pieces.push_back({m * cut.rows, std::min(k, cut.matrices - m), cut.rows});
    return;
  }
  const int64_t rows = std::max<int64_t>(piece_bytes / row_bytes / step, 1) * step;
  for (int64_t m = 0; m < cut.matrices; ++m) add_pieces(cut, m * cut.rows, cut.rows, rows);
}

Cut cut_of(const ValueType& packed, int64_t piece_bytes, bool scales_by_error) {
  const MatrixView m = matrix_view(packed.shape);
  Cut cut{packed, packed.spec, m.matrices, m.rows, m.cols, element_count(packed.shape), span_of(packed), {}};
  // One scale for a single row is one for the tensor, and that row may be wrapped.
  const bool single = packed.axis == Axis::last && m.matrices * m.rows == 1;
  if (single && cut.spec.granularity == Granularity::row && !cut.spec.occ.enabled) {
    cut.spec.granularity = Granularity::tensor;
    cut.span = Span::tensor;
  }
  const int64_t step = row_step(packed);
  // Whole matrices together where tiles, columns or blocks along the first axis tie their rows.
  const bool tied = step > 1 || cut.span == Span::columns;
  if (!tied && cut.elements > 0) {
    cut.rows *= cut.matrices;
    cut.matrices = 1;
  }
  const ValueType viewed{DType::packed, packed.shape, cut.spec, packed.axis};
  const bool by_error = scales_by_error && chooses_by_error(cut.spec.rule) && cut.span != Span::piece;
  const int64_t wrap = wraps(viewed) && !by_error ? wrapped_columns(cut, piece_bytes) : 0;
  if (wrap > 0) {
    cut.rows = (cut.elements + wrap - 1) / wrap;
    cut.cols = wrap;
  }
  if (by_error && cut.span == Span::tensor && cut.elements > 0)
    cut.pieces = {{0, cut.matrices, cut.rows}};
  else
    make_pieces(cut, piece_bytes, step, by_error);
  cut.spec.occ = {};
  cut.spec.hadamard = {};
  return cut;
}

void require_pieces_fit(const Cut& cut, int64_t piece_bytes) {
  int64_t largest = 0;
  for (const Piece& piece : cut.pieces) largest = std::max(largest, 4 * cut.rows_of(piece) * cut.cols);
  if (largest > piece_bytes)
    require_memory(largest, fmt::format("a part of {} that {} quantizes together", to_string(cut.original.shape),
                                        to_string(cut.original.spec)));
}

}  // namespace

int64_t Cut::count(const Piece& p) const { return std::min(rows_of(p) * cols, elements - first_element(p)); }

Shape Cut::shape_of(const Piece& p) const {
  return p.matrices != 1 ? Shape{p.matrices, p.rows, cols} : Shape{p.rows, cols};
}

ScaleRange Cut::scales_of(const Piece& p) const {
  const int64_t count = scale_grid(type_of(p)).count();
  if (span == Span::tensor || p.first_row == 0) return {0, count};
  const ScaleGrid grid = scale_grid({DType::packed, {matrices, rows, cols}, spec, original.axis});
  const int64_t matrix = p.first_row / rows, row = p.first_row % rows;
  return {(matrix * grid.rows + (span == Span::columns ? 0 : row / grid.row_step)) * grid.cols, count};
}

bool Cut::is_first_with_its_scales(const Piece& p) const {
  if (p.first_row == 0 || span == Span::piece) return true;
  return span == Span::columns && p.first_row % rows == 0;
}

Cut cut_for_quantize(const ValueType& packed, int64_t piece_bytes) {
  Cut cut = cut_of(packed, piece_bytes, true);
  require_pieces_fit(cut, piece_bytes);
  return cut;
}

Cut cut_for_decode(const ValueType& packed, int64_t piece_bytes) {
  ValueType plain = packed;
  plain.spec.occ = {};
  plain.spec.hadamard = {};
  Cut cut = cut_of(plain, piece_bytes, false);
  require_pieces_fit(cut, piece_bytes);
  return cut;
}

void require_memory(int64_t value_bytes, const std::string& what) {
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  if (value_bytes > machine / kCopies)
    throw Error(fmt::format("{} needs about {} × {} bytes of memory, this machine has {} bytes", what, kCopies,
                            value_bytes, machine));
}

}  // namespace fp4sim::cli
