// The instructions of asynchronous copies and tensor cores, one function each. Device only; a warp calls them
// together. Lane l has g = l / 4 and t = l mod 4.
#pragma once

#include <cstdint>

namespace fp4sim::gpu {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

/// Byte i is the byte of (y, x) that nibble i of the selector numbers, or, with the nibble's top bit, its top bit in
/// all eight places.
__device__ inline uint32_t permute_bytes(uint32_t x, uint32_t y, uint32_t selector) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(x), "r"(y), "r"(selector));
  return bytes;
}

/// Starts a copy of 16 (4) bytes from global to shared memory; commit_copies ends a group of them.
__device__ inline void copy_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ inline void copy_async4(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `pending` groups of this thread are on their way.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Four 8-row matrices of 16 bytes a row: lane l names row l mod 8 of matrix l / 8 and gets bytes 4t … 4t + 3 of row g
/// of each.
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// c += a·b for 16×8 outputs and 32 k of int8. a: k 4t … of rows g and g + 8, then k 16 + 4t … of both; b: k 4t … and
/// k 16 + 4t … of column g; c: columns 2t, 2t + 1 of row g, then of row g + 8.
__device__ inline void multiply_k32(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same for 16 k.
__device__ inline void multiply_k16(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/// c += a·b for 16×8 outputs and 8 k of binary64. a: k t of rows g and g + 8, then k t + 4 of both; b: k t and t + 4 of
/// column g; c: columns 2t, 2t + 1 of row g, then of row g + 8.
__device__ inline void multiply_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

}  // namespace fp4sim::gpu
