// The instructions of compute capability 9.0a that the large products use, one function each: barriers in shared
// memory, bulk copies, and matrix products of a warpgroup (four warps) on operands in shared memory. Device only.
#pragma once

#include "gpu/tensor_core.cuh"

namespace fp4sim::gpu {

constexpr int kWarpgroup = 128;  // threads
constexpr int kPair = 2;         // blocks of a cluster that share columns

/// The dynamic shared memory of the block of threads.
__device__ inline uint8_t* dynamic_shared() {
  extern __shared__ uint8_t raw[];
  return raw;
}

/// Gives registers back to the multiprocessor, or takes them: `registers` of each thread of the warpgroup.
template <int registers>
__device__ inline void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// A barrier in shared memory: a phase ends after its arrivals and after the bytes that were announced have come.
struct Barrier {
  uint64_t state;

  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
  }
  /// Arrives once and announces bytes of copies.
  __device__ void arrive_expecting(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                 : "memory");
  }
  /// Arrives at the same barrier of block `rank` of the cluster.
  __device__ void arrive_at(uint32_t rank) {
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(this)),
        "r"(rank)
        : "memory");
  }
  /// Waits for the end of the phase of this parity.
  __device__ void wait(uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\nbra again;\nfinished:\n}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
};

/// Makes initialized barriers visible to the other blocks of the cluster and to copies.
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// All threads of the cluster wait for each other.
__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Starts a copy of bytes (a multiple of 16) from global to shared memory that `barrier` counts.
__device__ inline void copy_bulk(void* shared, const void* global, uint32_t bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
/// The same into the blocks of the cluster that `blocks` has bits for, at the same place of each.
__device__ inline void copy_bulk_to(uint16_t blocks, void* shared, const void* global, uint32_t bytes,
                                    Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(&barrier)), "h"(blocks)
      : "memory");
}

/// Starts a copy of bytes (a multiple of 16) from shared to global memory; ordinary stores to the shared memory must be
/// published first. end_stores makes the thread's copies a group; wait_stores waits until all have read the shared
/// memory, finish_stores until they have written.
__device__ inline void store_bulk(void* global, const void* shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
}
__device__ inline void publish_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void end_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__device__ inline void finish_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Warpgroup number `group` waits for its threads.
__device__ inline void synchronize_warpgroup(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kWarpgroup) : "memory");
}

/// Describes rows of 128 bytes, k contiguous, whose 16-byte chunks are permuted by the row modulo 8; `first` begins at
/// a multiple of 1024 bytes. Adding descriptor_step(bytes) goes on by bytes: 32 of k, or rows of 128.
__device__ inline uint64_t matrix_descriptor(const void* first) {
  constexpr uint64_t kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return (shared_address(first) & 0x3FFFFu) >> 4 | uint64_t{1} << 16 | kEightRows << 32 | kSwizzle128 << 62;
}
__host__ __device__ constexpr uint64_t descriptor_step(int bytes) { return static_cast<uint64_t>(bytes) >> 4; }

/// The same value, of which the compiler sees that all lanes of the warp have it.
__device__ inline int uniform(int v) { return __shfl_sync(0xFFFFFFFFu, v, 0); }

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `pending` groups of products of this warpgroup are not finished.
template <int pending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// Keeps reads and writes of the accumulators on their side of a product.
template <int count>
__device__ inline void pin(float (&d)[count]) {
#pragma unroll
  for (float& v : d) asm volatile("" : "+f"(v)::"memory");
}
template <int count>
__device__ inline void pin(int (&d)[count]) {
#pragma unroll
  for (int& v : d) asm volatile("" : "+r"(v)::"memory");
}

// Operand lists of the instructions: C(i) is one operand, numbers in text are its registers.
#define FP4SIM_8(C, d, i) \
  C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]), C(d[i + 7])
#define FP4SIM_32(C, d, i) FP4SIM_8(C, d, i), FP4SIM_8(C, d, i + 8), FP4SIM_8(C, d, i + 16), FP4SIM_8(C, d, i + 24)
#define FP4SIM_REGISTERS_32(C, d) FP4SIM_32(C, d, 0)
#define FP4SIM_REGISTERS_64(C, d) FP4SIM_32(C, d, 0), FP4SIM_32(C, d, 32)
#define FP4SIM_REGISTERS_96(C, d) FP4SIM_REGISTERS_64(C, d), FP4SIM_32(C, d, 64)
#define FP4SIM_REGISTERS_128(C, d) FP4SIM_REGISTERS_96(C, d), FP4SIM_32(C, d, 96)
#define FP4SIM_TEXT_32                                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FP4SIM_TEXT_48 \
  FP4SIM_TEXT_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FP4SIM_TEXT_64 \
  FP4SIM_TEXT_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FP4SIM_TEXT_96                                                                                          \
  FP4SIM_TEXT_64                                                                                                \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, " \
  "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FP4SIM_TEXT_128                                                                                        \
  FP4SIM_TEXT_96                                                                                               \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, " \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FP4SIM_FLOAT(v) "+f"(v)
#define FP4SIM_INT(v) "+r"(v)

// 64 rows, `cols` columns and 32 bytes of k; d as c of multiply_k32: columns 8j + 2t, 8j + 2t + 1 of rows g and g + 8
// of the warp's sixteen, j ascending. multiply_… begins new sums, add_… adds to d.
#define FP4SIM_WARPGROUP_PRODUCT(name, type, C, cols, registers, a_at, b_at, kinds, adds, modifiers)                   \
  __device__ inline void name(type(&d)[registers], uint64_t a, uint64_t b) {                                           \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " #adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" #cols kinds \
                 " {" FP4SIM_TEXT_##registers "}, %" #a_at ", %" #b_at ", adds" modifiers ";\n}"                       \
                 : FP4SIM_REGISTERS_##registers(C, d)                                                                  \
                 : "l"(a), "l"(b));                                                                                    \
  }
#define FP4SIM_INT8 "k32.s32.s8.s8"
#define FP4SIM_E5M2 "k32.f32.e5m2.e5m2"
#define FP4SIM_F16 "k16.f32.f16.f16"
FP4SIM_WARPGROUP_PRODUCT(add_int8, int, FP4SIM_INT, 128, 64, 64, 65, FP4SIM_INT8, 1, "")
FP4SIM_WARPGROUP_PRODUCT(add_int8, int, FP4SIM_INT, 192, 96, 96, 97, FP4SIM_INT8, 1, "")
FP4SIM_WARPGROUP_PRODUCT(add_int8, int, FP4SIM_INT, 256, 128, 128, 129, FP4SIM_INT8, 1, "")
FP4SIM_WARPGROUP_PRODUCT(multiply_e5m2, float, FP4SIM_FLOAT, 64, 32, 32, 33, FP4SIM_E5M2, 0, ", 1, 1")
FP4SIM_WARPGROUP_PRODUCT(multiply_f16, float, FP4SIM_FLOAT, 64, 32, 32, 33, FP4SIM_F16, 0, ", 1, 1, 0, 0")
FP4SIM_WARPGROUP_PRODUCT(add_f16, float, FP4SIM_FLOAT, 128, 64, 64, 65, FP4SIM_F16, 1, ", 1, 1, 0, 0")

}  // namespace fp4sim::gpu
