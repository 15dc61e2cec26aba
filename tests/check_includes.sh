#!/bin/bash
# Checks every #include of the rooms against the table of rooms: who may include whom.
#   check_includes.sh ROOT        prints each forbidden include and fails if there is one
#   check_includes.sh --self-test plants forbidden includes in a scratch tree and fails unless each is caught
set -euo pipefail

# room: a path prefix, the longest one decides | rooms it may include besides itself
table() {
  cat <<'ROWS'
reference/contract |
reference/scalar   | reference/contract
reference/simd     | reference/contract
gpu                | reference/contract
cli/io             | reference/contract
cli/train          | reference/contract cli/io
fuzz               | reference/contract reference/scalar reference/simd gpu cli/io cli/train
cli                | reference/contract reference/scalar reference/simd gpu cli/io cli/train fuzz
ROWS
}

# file pattern ;; include pattern (extended regular expressions) ;; why
forbidden() {
  cat <<'ROWS'
\.(h|def|cuh)$ ;; ^<(fmt/|CLI/|toml\+\+/|nlohmann/) ;; heavy headers belong in .cc files
^(reference|gpu|fuzz|cli/io|cli/train)/ ;; ^<CLI/ ;; only cli knows the command line
^reference/.*\.(isa|vnni)\.cc$ ;; ^<(algorithm|array|bitset|deque|format|fstream|functional|iostream|list|map|memory|numeric|optional|ostream|queue|set|span|sstream|string|string_view|unordered_map|unordered_set|variant|vector|fmt/.*)> ;; an ISA unit has no std containers or streams: their inline code would carry its instructions
. ;; ^"\. ;; includes are written from the repository's root
. ;; ^"[^/]*"$ ;; includes are written from the repository's root
ROWS
}

# Prints FILE:LINE: <include> lines of the rooms under the current folder.
includes() {
  local rooms=() room
  for room in reference gpu cli fuzz; do [ -d "$room" ] && rooms+=("$room"); done
  find "${rooms[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) -print0 |
    sort -z | xargs -0 --no-run-if-empty grep -HnE '^[[:space:]]*#[[:space:]]*include' || true
}

check() {
  cd "$1"
  includes | ROOMS=$(table) RULES=$(forbidden) awk '
    function room_of(path,  i, best) {
      best = ""
      for (i in allowed) if (index(path, i "/") == 1 && length(i) > length(best)) best = i
      return best
    }
    function report(why) { print file ":" line ": " include ": " why; bad++ }
    BEGIN {
      n = split(ENVIRON["ROOMS"], row, "\n")
      for (i = 1; i <= n; i++) {
        split(row[i], cell, "|"); gsub(/ /, "", cell[1])
        allowed[cell[1]] = cell[2] " "
      }
      rule_count = split(ENVIRON["RULES"], rule, "\n")
    }
    {
      split($0, part, ":"); file = part[1]; line = part[2]
      include = $0; sub(/^[^#]*#[ \t]*include[ \t]*/, "", include); sub(/[ \t].*$/, "", include)
      total++
      for (i = 1; i <= rule_count; i++) {
        split(rule[i], field, " ;; ")
        if (file ~ field[1] && include ~ field[2]) report(field[3])
      }
      if (include !~ /^"[^.].*\//) next
      from = room_of(file); target = substr(include, 2, length(include) - 2); to = room_of(target)
      if (to == "") report("not in a room")
      else if (to != from && index(" " allowed[from], " " to " ") == 0) report(from " may not include " to)
    }
    END {
      if (bad) { print bad " forbidden includes"; exit 1 }
      if (!total) { print "no includes found: wrong folder?"; exit 1 }
      print total " includes, 0 forbidden"
    }'
}

# A tree with one good file and, for each row below, one planted include that must be reported.
self_test() {
  local scratch failures=0 file text
  scratch=$(mktemp -d)
  trap "rm -rf '$scratch'" EXIT
  while IFS='|' read -r file text; do
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$file")" "$scratch/tree/reference/simd"
    echo '#include "reference/contract/graph.h"' > "$scratch/tree/reference/simd/good.cc"
    (check "$scratch/tree") > "$scratch/out" || { echo "a clean tree fails: $(cat "$scratch/out")"; failures=1; }
    echo "#include $text" >> "$scratch/tree/$file"
    if (check "$scratch/tree") > "$scratch/out"; then
      echo "not caught: $file includes $text"
      failures=1
    elif ! grep -q "^$file:" "$scratch/out"; then
      echo "reported for another file: $(cat "$scratch/out")"
      failures=1
    fi
  done <<'PLANTED'
reference/simd/a.cc|"reference/scalar/backend.h"
reference/scalar/a.cc|"reference/simd/backend.h"
reference/contract/a.h|"reference/scalar/backend.h"
reference/contract/a.h|"cli/io/npy.h"
reference/contract/a.h|<fmt/format.h>
gpu/a.cu|"reference/scalar/backend.h"
cli/io/a.cc|"cli/train/model.h"
cli/train/a.cc|"reference/simd/backend.h"
cli/train/a.cc|"fuzz/lockstep_backend.h"
cli/train/a.cc|<CLI/CLI.hpp>
cli/commands/a.h|<nlohmann/json.hpp>
fuzz/a.cc|"cli/commands/train.h"
fuzz/a.cc|"tests/bits.h"
reference/simd/a.isa.cc|<vector>
cli/a.cc|"../reference/contract/graph.h"
reference/scalar/a.cc|"backend.h"
PLANTED
  [ "$failures" = 0 ] && echo "every planted include was caught"
  return "$failures"
}

case "${1:-}" in
  --self-test) self_test ;;
  "" | -*) echo "usage: check_includes.sh ROOT | --self-test" >&2; exit 2 ;;
  *) check "$1" ;;
esac
