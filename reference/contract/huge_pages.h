// Large pages for large memory: fewer address translations, and prefetching that does not stop every 4 KiB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace fp4sim {

/// Asks the system to back fresh memory by large pages where it is at least a few of them long; a wish, no more: what
/// the system answers changes nothing but speed.
inline void prefer_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kHuge - 1) / kHuge * kHuge;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + bytes) / kHuge * kHuge;
  if (end >= first + 2 * kHuge) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace fp4sim
