#!/usr/bin/env python3
"""Fails on a shared function that was compiled for one instruction set and could be linked into another.

The linker keeps one copy of a weak function, whichever object it meets first. In an ISA object each weak function must
therefore carry its level: the namespace fp4sim::simd::<level>, or xsimd's architecture type of that level.
"""
import argparse
import re
import subprocess
import sys

# xsimd types that belong to a level alone. avx512vnni shares avx512bw with avx512 and may use none.
XSIMD_TYPES = {
    "sse2": r"xsimd::sse2\b",
    "avx2": r"xsimd::fma3<xsimd::avx2>|xsimd::avx2\b",
    "avx512": r"xsimd::avx512bw\b",
    "avx512vnni": None,
}
WEAK_FUNCTIONS = set("Ww")  # V and u are data (coefficient tables), the same bytes whatever the level


def untagged(nm: str, level: str, objects: list[str]) -> list[str]:
    """Weak symbols without the level's tag, each with its object."""
    tag = rf"\bfp4sim::simd::{level}::"
    if XSIMD_TYPES[level]:
        tag += "|" + XSIMD_TYPES[level]
    found = []
    for path in objects:
        listing = subprocess.run([nm, "--demangle", "--defined-only", path], check=True, capture_output=True, text=True)
        for line in listing.stdout.splitlines():
            match = re.match(r"^[0-9a-fA-F]* +(\w) (.*)$", line)
            if match and match[1] in WEAK_FUNCTIONS and not re.search(tag, match[2]):
                found.append(f"{path}: {match[2]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--level", required=True, choices=XSIMD_TYPES)
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    found = untagged(options.nm, options.level, options.objects)
    for symbol in found:
        print(f"weak symbol without the tag of {options.level}: {symbol}", file=sys.stderr)
    print(f"{options.level}: {len(options.objects)} objects, {len(found)} untagged weak symbols")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
