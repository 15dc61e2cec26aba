// embedding and its gradient in column-sum order.
#include <cstring>
#include <vector>

#include "reference/contract/error.h"
#include "reference/contract/host_backend.h"
#include "reference/scalar/kernels.h"
#include "reference/scalar/reduction.h"

namespace fp4sim::scalar::kernels {
namespace {

int64_t row_of(const char* op, const int32_t* ids, int64_t position, int64_t rows) {
  const int64_t id = ids[position];
  if (id < 0 || id >= rows)
    throw Error(std::string(op) + ": id " + std::to_string(id) + " at position " + std::to_string(position) +
                " is outside [0, " + std::to_string(rows) + ")");
  return id;
}

}  // namespace

void embedding(const NodeCall& call) {
  const Shape& table = call.in[1].type.shape;  // (V, C)
  const int32_t* ids = in_data<int32_t>(call.in[0]);
  const int64_t positions = call.out[0].type.shape[0];
  const uint32_t* from = in_data<uint32_t>(call.in[1]);
  uint32_t* to = out_data<uint32_t>(call.out[0]);
  for (int64_t t = 0; t < positions; ++t) {
    const int64_t row = row_of("embedding", ids, t, table[0]);
    for (int64_t c = 0; c < table[1]; ++c) to[t * table[1] + c] = from[row * table[1] + c];
  }
}

void embedding_grad(const NodeCall& call) {
  const int64_t positions = call.in[1].type.shape[0], width = call.in[1].type.shape[1];
  const int64_t rows = call.node.attrs.integer("rows");
  const int32_t* ids = in_data<int32_t>(call.in[0]);
  const float* dy = in_data<float>(call.in[1]);
  float* table = out_data<float>(call.out[0]);

  std::vector<std::vector<int64_t>> positions_of(static_cast<size_t>(rows));  // ascending
  for (int64_t t = 0; t < positions; ++t)
    positions_of[static_cast<size_t>(row_of("embedding_grad", ids, t, rows))].push_back(t);

  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t>& mine = positions_of[static_cast<size_t>(row)];
    for (int64_t c = 0; c < width; ++c) {
      table[row * width + c] = sum_of_panels(positions, [&](int64_t first, int64_t last) {
        float acc = 0.0f;
        for (const int64_t t : mine) {
          if (t >= first && t < last) acc = acc + dy[t * width + c];
        }
        return acc;
      });
    }
  }
}

}  // namespace fp4sim::scalar::kernels
