// Coefficients of the elementary functions (numerics.md §8). The algorithms, operation by operation, without fma:
//
// exp64(x):  x > 709.8 → +Inf; x < −745.2 → +0; NaN → NaN. n = (x·kLog2E + kRoundMagic) − kRoundMagic;
//            r = (x − n·kLn2Hi) − n·kLn2Lo; p = Horner over kExp (highest first): p = p·r + c; result p·2^n1·2^n2,
//            n1 = n >> 1 (arithmetic), n2 = n − n1, powers of two built from bits.
// log64(x):  x NaN or < 0 → NaN; ±0 → −Inf; +Inf → +Inf. x = 2^e·m, m in [kSqrtHalf, 2·kSqrtHalf) taken from bits
//            (subnormals first multiplied by 2^54); f = m − 1; s = f/(2 + f); z = s·s; R = z·Horner over kLog;
//            result e·kLn2Hi − ((s·(f − R) − e·kLn2Lo) − f); x = 1 gives +0 exactly.
// tanh64(x): a = |x|. a ≤ kTanhSmall: r = a + a; E = r·Horner over the first 13 of kExp (1/13! … 1/1!), which is
//            e^r − 1; t = E/(E + 2). Else t = 1 − 2/(exp64(a + a) + 1). Result t with the sign of x; NaN → NaN.
// sin64, cos64 (host tables only, |x| < 2^20): n = (x·kTwoOverPi + kRoundMagic) − kRoundMagic;
//            r = ((x − n·kPio2A) − n·kPio2B) − n·kPio2C; Taylor polynomials of r, quadrant n mod 4.
//
// No fma, so that every instruction set gives the same bits without a software fma in binary64.
#pragma once

namespace fp4sim {

inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kRoundMagic = 0x1.8p+52;   // adding it rounds to an integer, nearest even
inline constexpr double kLn2Hi = 0x1.62e42feep-1;  // 33 significant bits: n·kLn2Hi is exact for |n| < 2^20
inline constexpr double kLn2Lo = 0x1.a39ef35793c76p-33;
inline constexpr double kExpOverflow = 709.8;
inline constexpr double kExpUnderflow = -745.2;
inline constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;

/// exp on |r| ≤ ln2/2: Taylor, 1/13! down to 1/0! (truncation below 2^-57).
inline constexpr double kExp[] = {1.0 / 6227020800.0,
                                  1.0 / 479001600.0,
                                  1.0 / 39916800.0,
                                  1.0 / 3628800.0,
                                  1.0 / 362880.0,
                                  1.0 / 40320.0,
                                  1.0 / 5040.0,
                                  1.0 / 720.0,
                                  1.0 / 120.0,
                                  1.0 / 24.0,
                                  1.0 / 6.0,
                                  1.0 / 2.0,
                                  1.0,
                                  1.0};
inline constexpr int kExpTerms = 14;

/// Up to here tanh64 takes the series: |2a| ≤ ln2/2, where 1 − 2/(e + 1) would cancel.
inline constexpr double kTanhSmall = 0x1.6p-3;

/// log(m) = 2·atanh(s): R/z = Σ 2/(2n+3)·z^n, highest first, n = 10 … 0 (|z| ≤ 0.02944: truncation below 2^-60).
inline constexpr double kLog[] = {2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0,
                                  2.0 / 11.0, 2.0 / 9.0,  2.0 / 7.0,  2.0 / 5.0,  2.0 / 3.0};
inline constexpr int kLogTerms = 11;

inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kPio2A = 0x1.921fb544p+0;   // 33 bits
inline constexpr double kPio2B = 0x1.0b4611a6p-34;  // next 33 bits
inline constexpr double kPio2C = 0x1.3198a2e037073p-69;

// gelu (numerics.md §9): x/(1+exp64(−2u)), u = kSqrt2OverPi·(x + kGeluCubic·((x·x)·x)) in binary64.
inline constexpr double kSqrt2OverPi = 0x1.9884533d43651p-1;
inline constexpr double kGeluCubic = 0.044715;

}  // namespace fp4sim
