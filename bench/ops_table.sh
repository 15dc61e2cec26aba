#!/bin/bash
# The table of every op: time on the scalar backend over the time on each simd level, one thread, from one run.
# ops_table.sh OPS_BENCH [GOOGLE BENCHMARK OPTIONS…]
set -euo pipefail
"${1:?the ops_bench program}" --benchmark_format=csv "${@:2}" 2>/dev/null | awk -F, '
  /^"/ {
    gsub(/"/, "", $1); name = $1; level = name
    sub(/.*\//, "", level); sub(/\/[^\/]*$/, "", name); sub(/^simd-/, "", level)
    if (!(name in seen)) { seen[name] = 1; order[++rows] = name }
    time[name, level] = $3
  }
  END {
    printf "%-28s %12s %8s %8s %8s %10s\n", "op", "scalar us", "sse2", "avx2", "avx512", "avx512vnni"
    for (i = 1; i <= rows; ++i) {
      n = order[i]
      printf "%-28s %12.0f", n, time[n, "scalar"]
      split("sse2 avx2 avx512 avx512vnni", levels, " ")
      for (l = 1; l <= 4; ++l)
        if ((n, levels[l]) in time) printf " %*.1f", l == 4 ? 10 : 8, time[n, "scalar"] / time[n, levels[l]]
        else printf " %*s", l == 4 ? 10 : 8, "-"
      printf "\n"
    }
  }'
