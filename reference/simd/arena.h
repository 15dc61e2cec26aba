// Scratch memory of an op: bump allocation, kept by the thread for the next op. Not for results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "reference/contract/huge_pages.h"

namespace fp4sim::simd {

class Arena {
 public:
  /// The calling thread's arena, emptied: everything taken from it before becomes invalid.
  static Arena& fresh() {
    thread_local Arena arena;
    arena.reset();
    return arena;
  }

  /// n uninitialized elements, 64-byte aligned. Throws std::bad_alloc.
  template <class T>
  T* take(int64_t n) {
    const size_t bytes = (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
    if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) grow(bytes);
    std::byte* at = blocks_.back().memory.get() + used_;
    used_ += bytes;
    return reinterpret_cast<T*>(at);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> memory;
    size_t bytes;
  };

  void grow(size_t bytes) {
    constexpr size_t kLeast = size_t{1} << 20;
    bytes = bytes < kLeast ? kLeast : bytes;
    blocks_.push_back(
        {std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64}))),
         bytes});
    prefer_huge_pages(blocks_.back().memory.get(), bytes);
    used_ = 0;
  }

  /// One block large enough for everything the last op needed replaces its several ones.
  void reset() {
    size_t total = 0;
    for (const Block& b : blocks_) total += b.bytes;
    if (blocks_.size() > 1) {
      blocks_.clear();
      grow(total);
    }
    used_ = 0;
  }

  std::vector<Block> blocks_;
  size_t used_ = 0;
};

}  // namespace fp4sim::simd
