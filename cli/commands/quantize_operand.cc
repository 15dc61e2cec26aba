#include "cli/commands/quantize_operand.h"

#include <fmt/format.h>

#include <algorithm>

namespace fp4sim::cli {
namespace {

const char* signs_text(HadamardSigns signs) {
  constexpr const char* kNames[] = {"none", "fixed16", "philox"};
  return kNames[static_cast<int>(signs)];
}

/// The spec's OCC alone, its residual left in binary32: e4m3 needs the scale of all of them.
QuantSpec occ_spec(const QuantSpec& spec) {
  QuantSpec occ;
  occ.occ = spec.occ;
  if (occ.occ.residual != ResidualFormat::none) occ.occ.residual = ResidualFormat::fp32;
  return occ;
}

template <class T>
void keep(std::vector<T>& elements, int64_t count) {
  elements.resize(static_cast<size_t>(count));
}

}  // namespace

Operand::Operand(Backend& backend, const io::TensorSource& source, const Cut& cut, const RandomState& random,
                 int64_t piece_bytes, const std::string& scratch_folder, ResidualSink sink)
    : source_(source), cut_(cut), random_(random), sink_(std::move(sink)), rotation_(backend), clamp_(backend) {
  const OccOption& occ = cut.original.spec.occ;
  if (!occ.enabled || cut.elements == 0) return;
  if (cut.original.axis == Axis::last && !occ.per_tensor) return;
  scratch_ = std::make_unique<io::ScratchFile>(scratch_folder);
  if (occ.per_tensor)
    split_whole();
  else
    split_columns(piece_bytes);
}

std::vector<float> Operand::rotate(const Shape& shape, std::vector<float> values) {
  const HadamardOption& had = cut_.original.spec.hadamard;
  if (had.n == 0) return values;
  const bool philox = had.signs == HadamardSigns::philox;
  const std::vector<StepInfo> step{random_.info()};
  Graph graph;
  std::vector<ValueId> in{add_value(graph, {DType::f32, shape, {}, Axis::last}, ValueKind::input, "x")};
  std::vector<std::vector<HostPart>> inputs{{host_part(values)}};
  if (philox) {
    in.push_back(add_value(graph, step_type(), ValueKind::input, "step"));
    inputs.push_back({host_part(step)});
  }
  const Attrs attrs{{"n", int64_t{had.n}},
                    {"axis", std::string(to_string(cut_.original.axis))},
                    {"signs", std::string(signs_text(had.signs))},
                    {"stream", static_cast<int64_t>(random_.stream)}};
  graph.results = add_node(graph, Op::hadamard, in, attrs, "hadamard");
  rotation_.run(graph, inputs);
  return rotation_.part<float>(graph.results[0]);
}

Operand::Split Operand::split(const Shape& shape, const std::vector<float>& values) {
  const QuantSpec spec = occ_spec(cut_.original.spec);
  Graph graph;
  const ValueId x = add_value(graph, {DType::f32, shape, {}, Axis::last}, ValueKind::input, "x");
  graph.results = add_node(graph, Op::occ_split, {x},
                           {{"spec", to_string(spec)}, {"axis", std::string(to_string(cut_.original.axis))}}, "occ");
  clamp_.run(graph, {{host_part(values)}});
  Split split{clamp_.part<float>(graph.results[0]), {clamp_.part<int64_t>(graph.results[1], 0), {}, {}}};
  if (spec.occ.residual == ResidualFormat::none) return split;
  split.residual.col = clamp_.part<int32_t>(graph.results[1], 1);
  split.residual.values = clamp_.part<float>(graph.results[1], 2);
  keep(split.residual.col, split.residual.row_ptr.back());
  keep(split.residual.values, split.residual.row_ptr.back());
  return split;
}

void Operand::split_whole() {
  require_memory(4 * cut_.elements,
                 fmt::format("tensor '{}': +occ with quantiles of the whole tensor", source_.name()));
  std::vector<float> values(static_cast<size_t>(cut_.elements));
  source_.read(0, cut_.elements, values.data());
  const Split result = split(source_.shape(), rotate(source_.shape(), std::move(values)));
  scratch_->write(0, std::as_bytes(std::span(result.clamped)));
  sink_(result.residual);
}

void Operand::split_columns(int64_t piece_bytes) {
  const MatrixView m = matrix_view(cut_.original.shape);
  require_memory(4 * m.rows, fmt::format("tensor '{}': +occ along a column of {} elements", source_.name(), m.rows));
  const int64_t slab = std::max<int64_t>(piece_bytes / 4 / m.rows, 1);
  for (int64_t matrix = 0; matrix < m.matrices; ++matrix)
    for (int64_t first = 0; first < m.cols; first += slab) {
      const int64_t count = std::min(slab, m.cols - first);
      std::vector<float> values(static_cast<size_t>(m.rows * count));
      for (int64_t row = 0; row < m.rows; ++row)
        source_.read((matrix * m.rows + row) * m.cols + first, count, values.data() + row * count);
      const Shape shape{m.rows, count};
      const Split result = split(shape, rotate(shape, std::move(values)));
      const std::span<const float> clamped(result.clamped);
      for (int64_t row = 0; row < m.rows; ++row)
        scratch_->write(4 * ((matrix * m.rows + row) * m.cols + first),
                        std::as_bytes(clamped.subspan(static_cast<size_t>(row * count), static_cast<size_t>(count))));
      sink_(result.residual);
    }
}

Operand::Values Operand::read(const Piece& piece) {
  const int64_t count = cut_.count(piece), first = cut_.first_element(piece);
  std::vector<float> values(static_cast<size_t>(cut_.rows_of(piece) * cut_.cols), 0.0f);
  source_.read(first, count, values.data());
  values = rotate(cut_.shape_of(piece), std::move(values));
  if (!cut_.original.spec.occ.enabled || cut_.elements == 0) return {{}, std::move(values)};
  Values result{std::move(values), {}};
  if (scratch_ != nullptr) {
    result.operand.resize(result.rotated.size());
    scratch_->read(4 * first, std::as_writable_bytes(std::span(result.operand).first(static_cast<size_t>(count))));
    return result;
  }
  Split part = split(cut_.shape_of(piece), result.rotated);
  result.operand = std::move(part.clamped);
  sink_(part.residual);
  return result;
}

}  // namespace fp4sim::cli
