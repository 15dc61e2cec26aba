#include "gpu/permutation.h"

#include <cstdlib>

namespace fp4sim::gpu {
namespace {

Shape parse_integers(const std::string& text) {
  Shape list;
  for (const char* at = text.c_str(); *at != 0;) {
    char* end = nullptr;
    list.push_back(std::strtoll(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
  }
  return list;
}

/// An axis of the source: size, and the distance of neighbours in the result.
struct SourceAxis {
  int64_t size, step;
};

/// The axes of the source, outermost first, without those of size 1 and with neighbours that stay together made one.
std::vector<SourceAxis> source_axes(const Permutation& p) {
  Shape steps(p.view.size());
  int64_t step = 1;
  for (size_t i = p.order.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(p.order[i]);
    steps[axis] = step;
    step *= p.view[axis];
  }
  std::vector<SourceAxis> axes;
  for (size_t i = 0; i < p.view.size(); ++i) {
    if (p.view[i] == 1) continue;
    if (!axes.empty() && axes.back().step == steps[i] * p.view[i]) {
      axes.back() = {axes.back().size * p.view[i], steps[i]};
    } else {
      axes.push_back({p.view[i], steps[i]});
    }
  }
  return axes;
}

/// One axis of the product as at most two of the source.
struct SplitAxis {
  SourceAxis inner{1, 0}, outer{1, 0};
};

/// Takes the innermost `size` elements off the axes; nothing where they are no two axes.
std::optional<SplitAxis> take_axis(std::vector<SourceAxis>& axes, int64_t size) {
  SplitAxis taken;
  for (SourceAxis* to : {&taken.inner, &taken.outer}) {
    if (size == 1) break;
    SourceAxis& from = axes.back();  // there is one: all sizes together are those of the product
    *to = {std::min(from.size, size), from.step};
    if (size % to->size != 0 || from.size % to->size != 0) return std::nullopt;
    size /= to->size;
    from = {from.size / to->size, from.step * to->size};
    if (from.size == 1) axes.pop_back();
  }
  if (size != 1) return std::nullopt;
  return taken;
}

}  // namespace

Permutation permutation_of(const Node& permute) {
  return {parse_integers(permute.attrs.text("view")), parse_integers(permute.attrs.text("perm"))};
}

std::optional<OutputPlaces> permuted_places(int64_t matrices, int64_t m, int64_t n, const Permutation& permutation) {
  std::vector<SourceAxis> axes = source_axes(permutation);
  if (axes.size() <= 1) return OutputPlaces{};  // nothing moves
  const auto cols = take_axis(axes, n);
  if (!cols || cols->inner.step != 1 || cols->inner.size % 4 != 0) return std::nullopt;
  const auto rows = take_axis(axes, m);
  if (!rows) return std::nullopt;
  const auto outer = take_axis(axes, matrices);
  if (!outer) return std::nullopt;
  for (const int64_t size : {matrices, m, n})
    if (size > UINT32_MAX) return std::nullopt;
  return OutputPlaces{.plain = false,
                      .inner_matrices = static_cast<uint32_t>(outer->inner.size),
                      .inner_rows = static_cast<uint32_t>(rows->inner.size),
                      .inner_cols = static_cast<uint32_t>(cols->inner.size),
                      .outer_matrix = outer->outer.step,
                      .inner_matrix = outer->inner.step,
                      .outer_row = rows->outer.step,
                      .inner_row = rows->inner.step,
                      .outer_col = cols->outer.step};
}

}  // namespace fp4sim::gpu
