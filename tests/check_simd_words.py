#!/usr/bin/env python3
"""Fails on words that give other bits on some level: xsimd's fma (unfused on SSE2 and AVX-512) and elementary
functions, libm's, and std::fma (a call into libm where the level has no instruction)."""
import pathlib
import re
import sys

FUNCTIONS = r"(?:fma|fms|fnma|fnms|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|tanh|reciprocal|rsqrt|erf)"
FORBIDDEN = [
    (rf"\bxsimd::{FUNCTIONS}\s*\(", "xsimd's function"),
    (r"\bstd::(?:fma|exp|exp2|log|log2|pow|tanh|erf)f?\s*\(", "libm's function"),
    # Unqualified calls find xsimd's functions through their arguments; fma is declared for every type in fma.h.
    (r"(?<![\w:.>])(?:fms|fnma|fnms|exp|exp2|log|log2|pow|tanh|reciprocal|rsqrt|erf)\s*\(", "a function found by its arguments"),
    (r"_mm\d*_(?:mask_|maskz_)?(?:rcp|rsqrt)", "an approximate instruction"),
]


def code_of(text: str) -> str:
    """The text with comments blanked and line numbers kept."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", blank, text, flags=re.S)


def main() -> int:
    files = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.suffix in (".h", ".cc"))
    failures = 0
    for path in files:
        for number, line in enumerate(code_of(path.read_text()).splitlines(), 1):
            for pattern, what in FORBIDDEN:
                if re.search(pattern, line):
                    print(f"{path}:{number}: {what}: {line.strip()}", file=sys.stderr)
                    failures += 1
    print(f"{len(files)} files, {failures} forbidden words")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
