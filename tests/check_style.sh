#!/bin/bash
# Checks what a formatter does not see: file length, and words that may not appear in certain files.
#   check_style.sh ROOT        prints each finding and fails if there is one
#   check_style.sh --self-test plants findings in a scratch tree and fails unless each is caught
set -euo pipefail

MAX_LINES=400

# path pattern ;; line pattern (extended regular expressions) ;; why
rules() {
  cat <<'ROWS'
^(reference|gpu|fuzz|cli)/ ;; (^|[^A-Za-z0-9_])(std)?::(exp|exp2|expm1|log|log2|log10|log1p|pow|tanh|sinh|cosh|sin|cos|tan|atan|atan2|erf|erfc|tgamma|lgamma|cbrt|hypot)f?\( ;; libm differs between hosts: use the elementary functions (numerics.md §8)
^(reference|gpu)/ ;; (^|[^A-Za-z0-9_.:>])(exp|exp2|expm1|log|log2|log10|log1p|pow|tanh|sin|cos|erf)f?\( ;; libm differs between hosts: use the elementary functions (numerics.md §8)
^reference/simd/ ;; xsimd::(fma|fms|fnma|fnms|exp|exp2|exp10|expm1|log|log2|log10|log1p|reciprocal|rsqrt|pow|tanh|erf)[^A-Za-z0-9_] ;; not exactly rounded in this xsimd: use simd/fma.h and the elementary functions
^(reference|gpu|fuzz|cli/io|cli/train)/ ;; std::(cout|cerr|clog|abort|exit|_Exit|quick_exit|getenv)[^A-Za-z0-9_] ;; libraries never print, abort or read the environment
. ;; -march=(native)|-ffast-(math)|-O(fast) ;; a result must not depend on the build host
^(reference|gpu|fuzz|cli/io|cli/train|tests)/ ;; (^|[^A-Za-z0-9_])(rand|srand|drand48)\(|std::random_(device) ;; random bits come from Philox (numerics.md §3)
. ;; (TO)DO|FIX(ME)|(^|[^X])X(XX)([^X]|$) ;; unfinished work belongs in an issue
ROWS
}

# The project's own files under the current folder, without build trees and without this script (it names the words).
files() {
  local folders=() folder
  for folder in .ci bench cli cmake fuzz gpu reference tests; do [ -d "$folder" ] && folders+=("$folder"); done
  find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \
    -o -name '*.in' -o -name '*.cmake' -o -name 'CMakeLists.txt' -o -name '*.py' -o -name '*.sh' -o -name run \) |
    sort | grep -vx 'tests/check_style.sh' || true
  for folder in dev CMakeLists.txt CMakePresets.json; do [ -f "$folder" ] && echo "$folder"; done
  true
}

check() {
  cd "$1"
  files | tr '\n' '\0' | RULES=$(rules) MAX_LINES=$MAX_LINES xargs -0 --no-run-if-empty awk '
    BEGIN {
      rule_count = split(ENVIRON["RULES"], rule, "\n")
      for (i = 1; i <= rule_count; i++) {
        split(rule[i], field, " ;; ")
        where[i] = field[1]; what[i] = field[2]; why[i] = field[3]
      }
    }
    function report(text) { print text; bad++ }
    FNR == 1 { files++ }
    FNR == ENVIRON["MAX_LINES"] + 1 { report(FILENAME ": more than " ENVIRON["MAX_LINES"] " lines: split it by idea") }
    {
      for (i = 1; i <= rule_count; i++)
        if (FILENAME ~ where[i] && $0 ~ what[i] && !comment($0, i)) report(FILENAME ":" FNR ": " $0 ": " why[i])
    }
    # comments may name what code may not use; only the last row holds for them too
    function comment(text, i) { return i < rule_count && text ~ /^[ \t]*(\/\/|#)/ }
    END {
      if (bad) { print bad " findings"; exit 1 }
      if (!files) { print "no files found: wrong folder?"; exit 1 }
      print files " files, 0 findings"
    }'
}

# A clean tree, and for each row below one planted line that must be reported.
self_test() {
  local scratch failures=0 file line
  scratch=$(mktemp -d)
  trap "rm -rf '$scratch'" EXIT
  while IFS='|' read -r file line; do
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$file")" "$scratch/tree/reference/scalar"
    printf '// exp(x) in words\nint a = std::sqrt(2.0) + std::fma(1, 2, 3) + exp64(x) + host_math::exp64(x);\n' \
      > "$scratch/tree/reference/scalar/good.cc"
    (check "$scratch/tree") > "$scratch/out" || { echo "a clean tree fails: $(cat "$scratch/out")"; failures=1; }
    if [ "$line" = long ]; then printf '// line\n%.0s' {1..401} > "$scratch/tree/$file"; else echo "$line" > "$scratch/tree/$file"; fi
    if (check "$scratch/tree") > "$scratch/out"; then
      echo "not caught: $file: $line"
      failures=1
    elif ! grep -q "^$file:" "$scratch/out"; then
      echo "reported for another file: $(cat "$scratch/out")"
      failures=1
    fi
  done <<'PLANTED'
reference/scalar/a.cc|float y = std::exp(x);
reference/scalar/a.cc|float y = expf(x);
cli/train/a.cc|double y = std::pow(2.0, n);
reference/simd/a.isa.cc|auto y = xsimd::fma(a, b, c);
cli/train/a.cc|std::cout << 1;
fuzz/a.cc|const char* e = std::getenv("X");
tests/a.cc|// TODO: later
cmake/a.cmake|add_compile_options(-march=native)
tests/a.cc|int x = rand();
reference/contract/a.h|long
tests/long.py|long
PLANTED
  [ "$failures" = 0 ] && echo "every planted finding was caught"
  return "$failures"
}

case "${1:-}" in
  --self-test) self_test ;;
  "" | -*) echo "usage: check_style.sh ROOT | --self-test" >&2; exit 2 ;;
  *) check "$1" ;;
esac
