// The memory that a step touches, and with it the order that two steps must keep.
#pragma once

#include <vector>

#include "gpu/schedule.h"

namespace fp4sim::gpu {

/// Bytes of a buffer that a step reads or writes.
struct Access {
  const Buffer* buffer;
  int64_t begin, end;
  bool write;
};

inline bool overlap(const Access& a, const Access& b) {
  return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

/// What a chain or a step touches: values that stay inside of a chain do not count.
std::vector<Access> accesses(const Chain& chain);
std::vector<Access> accesses(const Step& step);

/// True if the order of two steps matters: one writes what the other touches.
bool conflict(const std::vector<Access>& a, const std::vector<Access>& b);

}  // namespace fp4sim::gpu
