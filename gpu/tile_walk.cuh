// A block of threads walks down 32 columns of a matrix, a tile of 32 rows for each of its four or twelve warps in each
// round: a warp copies its tiles into a ring in shared memory some rounds ahead, runs the element-wise program on them
// in place and quantizes them from registers; one more warp adds the columns of the tiles in ascending order, a lane a
// column.
#pragma once

#include "gpu/elements.cuh"
#include "gpu/hopper.cuh"
#include "gpu/quantize_tile.cuh"

namespace fp4sim::gpu {

constexpr int kTileElements = kTileSide * kTileSide;
constexpr int kMostSources = 1 + kMostOperands;

/// The kernel's view of the work. Matrices whose tiles are whole count as one. Rows and columns have 31 bits.
struct TileWalk {
  int cols, matrix_rows;
  int down, tiles;  // tiles down one matrix, down all
  int strip;        // tiles that a block of threads walks
  int across;       // strips side by side
  int slots;        // rounds that the ring holds
  int sources;      // tensors that are copied: x and full operands
  const float* source[kMostSources];
  int source_of[kMostOperands];  // where an operand is among them; 0: it is one row
  int block, block_shift;        // elements of a scale block, and their binary logarithm
  int grid_rows;                 // blocks down a matrix
  ScaleMaker maker;
  PackedTarget last, first;
  float* partial;  // sums of each panel; nullptr: none are wanted
};

/// The walks of one launch: that of a block of threads is the last one whose `begin` is no higher than its number.
template <int kMost>
struct TileWalks {
  int count;
  int begin[kMost];
  TileWalk walk[kMost];

  __device__ int of(int block) const {
    int k = 0;
    while (k + 1 < count && begin[k + 1] <= block) ++k;
    return k;
  }
};

/// A tile: its first row among all, its place in its matrix, its rows; no rows: there is none.
struct WalkTile {
  int row, matrix, index, rows;
};

/// The tiles of a block of threads and its ring.
template <int kWarps>
struct Strip {
  int number, col;  // the strip of its columns, its first column
  int first, end, rounds;

  __device__ Strip(const TileWalk& walk, int block) {
    number = block / walk.across;
    col = (block - number * walk.across) * kTileSide;
    first = number * walk.strip;
    end = min(first + walk.strip, walk.tiles);
    rounds = (end - first + kWarps - 1) / kWarps;
  }
  __device__ WalkTile tile(const TileWalk& walk, int round, int warp) const {
    const int t = first + round * kWarps + warp;
    if (t >= end) return {0, 0, 0, 0};
    const int matrix = walk.tiles == walk.down ? 0 : t / walk.down, index = t - matrix * walk.down;
    return {matrix * walk.matrix_rows + index * kTileSide, matrix, index,
            min(walk.matrix_rows - index * kTileSide, kTileSide)};
  }
  __device__ static float* place(const TileWalk& walk, int slot, int source, int warp) {
    auto* ring = reinterpret_cast<float*>(dynamic_shared());
    return ring + ((slot * walk.sources + source) * kWarps + warp) * kTileElements;
  }
  __device__ static int next(const TileWalk& walk, int slot) { return slot + 1 == walk.slots ? 0 : slot + 1; }
};

/// The warp that adds: all threads of the block meet once a round, when its tiles are ready and those before are
/// summed.
template <int kWarps>
__device__ inline void sum_strip(const TileWalk& walk, const Strip<kWarps>& strip) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float acc = 0.0f;
  for (int round = 0, slot = 0; round < strip.rounds; ++round, slot = strip.next(walk, slot)) {
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      const float* column = strip.place(walk, slot, 0, w) + lane;
      const int rows = strip.tile(walk, round, w).rows;
      if (rows == kTileSide) {
#pragma unroll
        for (int r = 0; r < kTileSide; ++r) acc = acc + column[r * kTileSide];
      } else {
        for (int r = 0; r < rows; ++r) acc = acc + column[r * kTileSide];
      }
    }
  }
  if (strip.col + lane < walk.cols) walk.partial[int64_t{strip.number} * walk.cols + strip.col + lane] = acc;
}

/// Element-wise ops on rows of a lane.
struct NoProgram {
  static constexpr bool kRuns = false;
  static constexpr int kWalks = 8;     // of one launch
  static constexpr int kWarps = 12;    // of a block of threads, beside the one that adds
  static constexpr int kResident = 2;  // blocks of threads of a multiprocessor
};
struct AnyProgram {
  static constexpr bool kRuns = true;
  static constexpr int kRows = 2;  // of a lane, that an instruction takes at once
  static constexpr int kWalks = 1;
  static constexpr int kWarps = 4;
  static constexpr int kResident = 2;
  template <int N, class Store>
  __device__ static void run(const ElementProgram& program, const float (&others)[kMostOperands][N], float (&v)[N],
                             const Store& store) {
    gpu::run(program, others, v, store);
  }
};
/// One instruction that the compiler knows.
template <Code kCode>
struct OneInstruction {
  static constexpr bool kRuns = true;
  static constexpr int kRows = kCode == Code::gelu ? 1 : 2;  // of a lane, that an instruction takes at once
  static constexpr int kWalks = 1;
  static constexpr int kWarps = 4;
  static constexpr int kResident = kCode == Code::gelu ? 5 : 3;
  template <int N, class Store>
  __device__ static void run(const ElementProgram& program, const float (&others)[kMostOperands][N], float (&v)[N],
                             const Store& store) {
    apply<N>({kCode, 0, 0.0f, nullptr, nullptr}, others[0], v);
    if (program.list[0].store != nullptr) store(program.list[0], v);
  }
};

/// What a lane of the other warps does.
template <class Program, class Encoder>
class TileLane {
 public:
  using Tiles = Strip<Program::kWarps>;

  __device__ TileLane(const TileWalk& walk, const Tiles& strip, const ElementProgram& program)
      : walk_(walk),
        strip_(strip),
        program_(program),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        row_(static_cast<int>(threadIdx.x) % kWarp / kLanesAcross * kLaneRows),
        col_(strip.col + static_cast<int>(threadIdx.x) % kLanesAcross * kVector) {
    if constexpr (Program::kRuns) {
#pragma unroll
      for (int o = 0; o < kMostOperands; ++o)
        if (o < program.operands && walk.source_of[o] == 0 && col_ < walk.cols)
          one_row_[o] = four_of(*reinterpret_cast<const float4*>(program.others[o].x + col_));
    }
  }

  __device__ WalkTile tile(int round) const { return strip_.tile(walk_, round, warp_); }

  /// Starts the copies of a tile to a slot.
  __device__ void request(const WalkTile& at, int slot) const {
    const int rows = rows_of(at);
    if (rows > 0) {
      const int64_t from = element_of(at);
      for (int s = 0; s < (Program::kRuns ? walk_.sources : 1); ++s) {
        float* to = place(slot, s);
        const float* x = walk_.source[s] + from;
#pragma unroll
        for (int r = 0; r < kLaneRows; ++r) {
          if (r < rows) copy_async16(to + r * kTileSide, x);
          x += walk_.cols;
        }
      }
    }
    commit_copies();
  }

  /// Waits for this lane's copies of a tile; ends with the program's results in their place and in registers.
  __device__ void make(const WalkTile& at, int slot, LaneTile& values) const {
    if (walk_.slots == 2)
      wait_copies<0>();
    else
      wait_copies<1>();
    const int rows = rows_of(at);
    if constexpr (Program::kRuns) {
#pragma unroll 1
      for (int r = 0; r < rows; r += Program::kRows) run_rows(at, slot, r, rows);
    }
    const float* x = place(slot, 0);
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r)
      values.row[r] = r < rows ? four_of(*reinterpret_cast<const float4*>(x + r * kTileSide)) : Four{};
  }

  /// Quantizes a tile.
  __device__ void quantize(const WalkTile& at, const LaneTile& values, const Encoder& last,
                           const Encoder& first) const {
    if (at.rows == 0) return;
    const int shift = walk_.block_shift, row_scales = walk_.cols >> shift;
    const int grid_row = (at.index * kTileSide + row_) >> shift;
    const TilePlace place{element_of(at),
                          walk_.cols,
                          rows_of(at),
                          int64_t{at.row + row_} * row_scales + (col_ >> shift),
                          row_scales,
                          col_ < walk_.cols && grid_row < walk_.grid_rows
                              ? int64_t{at.matrix * walk_.grid_rows + grid_row} * walk_.cols + col_
                              : -1};
    const auto run = [&]<bool kLast, bool kFirst>(std::bool_constant<kLast>, std::bool_constant<kFirst>) {
      quantize_tile<kLast, kFirst>(values, place, walk_.block, walk_.maker, last, walk_.last, first, walk_.first);
    };
    const bool along = walk_.last.codes != nullptr, down = walk_.first.codes != nullptr;
    if (along && down) return run(std::true_type(), std::true_type());
    if (along) return run(std::true_type(), std::false_type());
    if (down) run(std::false_type(), std::true_type());
  }

 private:
  __device__ int rows_of(const WalkTile& at) const {
    return col_ < walk_.cols ? max(min(at.rows - row_, kLaneRows), 0) : 0;
  }
  __device__ int64_t element_of(const WalkTile& at) const { return int64_t{at.row + row_} * walk_.cols + col_; }
  __device__ float* place(int slot, int source) const {
    return strip_.place(walk_, slot, source, warp_) + row_ * kTileSide +
           static_cast<int>(threadIdx.x) % kLanesAcross * kVector;
  }

  __device__ void run_rows(const WalkTile& at, int slot, int r, int rows) const {
    constexpr int kElements = Program::kRows * kVector;
    float v[kElements], others[kMostOperands][kElements] = {};
    load_rows(place(slot, 0) + r * kTileSide, v);
#pragma unroll
    for (int o = 0; o < kMostOperands; ++o) {
      if (o >= program_.operands) continue;
      if (walk_.source_of[o] != 0) {
        load_rows(place(slot, walk_.source_of[o]) + r * kTileSide, others[o]);
      } else {
#pragma unroll
        for (int k = 0; k < kElements; ++k) others[o][k] = one_row_[o].v[k % kVector];
      }
    }
    Program::run(program_, others, v, [&](const Instruction& instruction, const float(&result)[kElements]) {
      float* to = instruction.store + element_of(at) + int64_t{r} * walk_.cols;
      for_rows(result, [&](int j, float4 f) {
        if (r + j < rows) *reinterpret_cast<float4*>(to + j * walk_.cols) = f;
      });
    });
    float* to = place(slot, 0) + r * kTileSide;
    for_rows(v, [&](int j, float4 f) { *reinterpret_cast<float4*>(to + j * kTileSide) = f; });
  }

  template <int N>
  __device__ static void load_rows(const float* from, float (&v)[N]) {
#pragma unroll
    for (int j = 0; j < N / kVector; ++j) {
      const Four f = four_of(*reinterpret_cast<const float4*>(from + j * kTileSide));
#pragma unroll
      for (int k = 0; k < kVector; ++k) v[j * kVector + k] = f.v[k];
    }
  }
  template <int N, class F>
  __device__ static void for_rows(const float (&v)[N], const F& f) {
#pragma unroll
    for (int j = 0; j < N / kVector; ++j)
      f(j, make_float4(v[j * kVector], v[j * kVector + 1], v[j * kVector + 2], v[j * kVector + 3]));
  }

  const TileWalk& walk_;
  const Tiles& strip_;
  const ElementProgram& program_;
  int warp_, row_, col_;  // row in a tile
  Four one_row_[kMostOperands] = {};
};

template <class Program, class Encoder>
__global__ void __launch_bounds__((Program::kWarps + 1) * kWarp, Program::kResident)
    tiles_kernel(const __grid_constant__ TileWalks<Program::kWalks> walks,
                 const __grid_constant__ ElementProgram program, Encoder unready_last, Encoder unready_first) {
  const int number = Program::kWalks == 1 ? 0 : walks.of(static_cast<int>(blockIdx.x));
  const TileWalk& walk = walks.walk[number];
  const Strip<Program::kWarps> strip(walk, static_cast<int>(blockIdx.x) - walks.begin[number]);
  if (threadIdx.x >= Program::kWarps * kWarp) return sum_strip(walk, strip);
  const auto& last = unready_last.ready();
  const auto& first = unready_first.ready();
  const TileLane<Program, std::decay_t<decltype(last)>> lane(walk, strip, program);
  int coming = 0;  // the slot of the copies that start next
  for (int round = 0; round < walk.slots - 1; ++round, ++coming) lane.request(lane.tile(round), coming);
  for (int round = 0, slot = 0; round < strip.rounds; ++round, slot = strip.next(walk, slot)) {
    const WalkTile tile = lane.tile(round);
    LaneTile values;
    lane.make(tile, slot, values);
    if (walk.partial != nullptr) __syncthreads();  // the round is there, the one before is summed: its slot is free
    lane.request(lane.tile(round + walk.slots - 1), coming);
    coming = strip.next(walk, coming);
    lane.quantize(tile, values, last, first);
  }
}

}  // namespace fp4sim::gpu
