// Which kernel walks a matrix (tile_walk.cuh), in what strips.
#include "gpu/tiles.h"

#include <vector>

#include "gpu/column_sum.cuh"
#include "gpu/fused_dispatch.cuh"
#include "gpu/tile_walk.cuh"

namespace fp4sim::gpu {
namespace {

PackedTarget target_of(const std::optional<QuantizeCall>& call) {
  return call ? PackedTarget{codes_of(*call), scales_of<uint8_t>(*call)} : PackedTarget{};
}

TileWalk walk_of(const TileWork& work) {
  TileWalk walk{};
  const ElementProgram& program = work.program;
  const bool whole = work.rows % kTileSide == 0;
  const int64_t matrices = whole ? 1 : work.matrices, rows = whole ? work.matrices * work.rows : work.rows;
  walk.cols = static_cast<int>(work.cols);
  walk.matrix_rows = static_cast<int>(rows);
  walk.down = static_cast<int>(ceil_div(rows, kTileSide));
  walk.tiles = static_cast<int>(matrices * walk.down);
  walk.across = static_cast<int>(ceil_div(work.cols, kTileSide));
  walk.source[walk.sources++] = program.x;
  for (int o = 0; o < program.operands; ++o) {
    if (program.others[o].period != program.n) continue;
    walk.source_of[o] = walk.sources;
    walk.source[walk.sources++] = program.others[o].x;
  }
  walk.last = target_of(work.last);
  walk.first = target_of(work.first);
  if (const auto& call = work.last ? work.last : work.first) {
    walk.block = static_cast<int>(work.last ? call->q.layout.col_step : call->q.layout.row_step);
    walk.block_shift = walk.block == kWholeBlock ? 5 : 4;
    walk.maker = scale_maker_of(call->q.quantizer);
  }
  if (work.first) walk.grid_rows = static_cast<int>(ceil_div(rows, walk.block));
  return walk;
}

/// Calls launch with the kernel's encoders of both quantizations, or of the one that is wanted twice.
template <class Launch>
void with_encoders(const TileWork& work, const Launch& launch) {
  if (!work.last && !work.first) return launch(E2m1Nearest{}, E2m1Nearest{});
  with_encoder(work.last ? *work.last : *work.first, [&](const auto& last) {
    with_encoder(work.first ? *work.first : *work.last, [&](const auto& first) {
      if constexpr (std::is_same_v<decltype(last), decltype(first)>) launch(last, first);
    });
  });
}

/// True for the encoders that have kernels with programs.
template <class Encoder>
constexpr bool kRunsPrograms = std::is_same_v<Encoder, E2m1Nearest> || std::is_same_v<Encoder, E2m1Stochastic> ||
                               std::is_same_v<Encoder, Fp8Nearest<true>>;

/// Calls launch with the kernel's program.
template <class Encoder, class Launch>
void with_program(const ElementProgram& program, const Launch& launch) {
  if (program.count == 0) return launch(NoProgram{});
  if constexpr (std::is_same_v<Encoder, E2m1Nearest>) {
    if (program.count == 1 && program.list[0].code == Code::gelu) return launch(OneInstruction<Code::gelu>{});
    if (program.count == 1 && program.list[0].code == Code::gelu_grad) return launch(OneInstruction<Code::gelu_grad>{});
  }
  if constexpr (kRunsPrograms<Encoder>) launch(AnyProgram{});
}

constexpr int kSharedOfMultiprocessor = 227 * 1024, kReserved = 1024;  // bytes; the latter of each block
static_assert(NoProgram::kWalks == kMostTileWorks && kMostTileWorks <= kMostSums);

constexpr int round_bytes(int warps, int sources) { return warps * sources * kTileElements * 4; }

/// Tiles that a block walks: a panel where columns are summed, else an even share of what the device runs at once.
int strip_of(std::span<const TileWork> works, std::span<const TileWalk> walks, int warps, int64_t blocks) {
  if (works[0].sums != nullptr) return static_cast<int>(kPanel / kTileSide);
  int64_t rounds = 0;
  for (const TileWalk& walk : walks) rounds += ceil_div(walk.tiles, warps) * walk.across;
  return static_cast<int>(ceil_div(rounds, blocks)) * warps;
}

template <class Program, class Encoder>
void launch_walks(std::span<const TileWork> works, std::span<TileWalk> list, const Encoder& last, const Encoder& first,
                  Context& context) {
  const int round = round_bytes(Program::kWarps, list[0].sources);
  const int slots = (3 * round + kReserved) * Program::kResident <= kSharedOfMultiprocessor ? 3 : 2;
  const int resident = std::min(kSharedOfMultiprocessor / (slots * round + kReserved), Program::kResident);
  const int strip = strip_of(works, list, Program::kWarps, int64_t{context.multiprocessors()} * resident);
  TileWalks<Program::kWalks> walks{};
  int64_t blocks = 0;
  for (TileWalk& walk : list) {
    walk.slots = slots;
    walk.strip = strip;
    walks.begin[walks.count] = static_cast<int>(blocks);
    walks.walk[walks.count++] = walk;
    blocks += ceil_div(walk.tiles, walk.strip) * walk.across;
  }
  const int threads = (Program::kWarps + (works[0].sums != nullptr ? 1 : 0)) * kWarp;
  const auto kernel = tiles_kernel<Program, Encoder>;
  constexpr int kMost =
      Program::kRuns ? 2 * round_bytes(Program::kWarps, kMostSources) : 3 * round_bytes(Program::kWarps, 1);
  FP4SIM_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost));
  context.launch(kernel, Context::per_block(blocks, threads, slots * round), walks, works[0].program, last, first);
}

}  // namespace

bool tiles_quantize(const NodeCall& quantize) {
  const ValueType& packed = quantize.out[0].type;
  const uint64_t first = first_element_of(quantize);
  if (quantize.in.size() > 2 || has_tensor_scale(packed.spec)) return false;
  return fused_blocks_take(packed, first) ? packed.spec.element.bits % 2 == 0 : fused_columns_take(packed, first);
}

bool tiles_run_programs(const QuantSpec& spec) {
  if (uses_ieee(spec)) return false;
  const bool nearest = spec.rounding == Rounding::rne;
  return nearest ? spec.element == kE2m1 || spec.element == kE4m3
                 : is_stochastic(spec.rounding) && spec.element == kE2m1;
}

bool tiles_walk(int64_t matrices, int64_t rows, int64_t cols) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return matrices * (rows + kTileSide) < kMost && cols < kMost;
}

bool tiles_sum(int64_t matrices, int64_t rows, int64_t cols) {
  return (matrices == 1 || rows % kTileSide == 0) && cols % kVector == 0;
}

bool tiles_take_operand(int64_t count, int64_t elements, int64_t cols) { return count == elements || count == cols; }

void run_tiles(std::span<const TileWork> works, Context& context) {
  const TileWork& one = works[0];
  const int64_t panels = ceil_div(one.matrices * one.rows, kPanel);
  auto* partial =
      one.sums != nullptr ? context.scratch<float>(static_cast<int64_t>(works.size()) * panels * one.cols) : nullptr;
  std::vector<TileWalk> walks;
  ColumnOutputs sums{};
  for (const TileWork& work : works) {
    const auto number = static_cast<int64_t>(walks.size());
    walks.push_back(walk_of(work));
    if (partial != nullptr) walks.back().partial = partial + number * panels * one.cols;
    sums.sums[number] = work.sums;
  }
  with_encoders(one, [&]<class Encoder>(const Encoder& last, const Encoder& first) {
    with_program<Encoder>(one.program,
                          [&]<class Program>(Program) { launch_walks<Program>(works, walks, last, first, context); });
  });
  if (partial != nullptr) add_panels(context, partial, sums, static_cast<int>(works.size()), one.cols, panels);
}

}  // namespace fp4sim::gpu
