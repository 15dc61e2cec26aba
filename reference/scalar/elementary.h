// exp, log and tanh (numerics.md §8), evaluated operation by operation as coefficients.h states. Nothing else is here:
// sqrt and fma come from the hardware or the C library, which round them correctly.
#pragma once

namespace fp4sim::scalar {

/// e^x in binary64, within 1.2 ulp of the real value. +Inf above 709.8 (and where the product overflows), +0 below
/// −745.2, NaN for NaN. The steps and coefficients are the definition (§5 uses the value before its rounding to
/// binary32). The sigmoid 1/(1 + exp64(−x)) of a binary32 x, rounded to binary32, is misrounded for 66 of the 2^32
/// inputs: 65 times where ½ + x/4 is a midpoint, |x| < 2^-15.9 (checked exhaustively, as exp_f32).
double exp64(double x);

/// The natural logarithm in binary64, within 1.0 ulp of the real value. −Inf for ±0, NaN for x < 0 and NaN, +0 for 1.
double log64(double x);

/// The hyperbolic tangent in binary64, within 7 ulp of the real value; the sign of x on every result. NaN for NaN. Of a
/// binary32 x, rounded to binary32, it is correctly rounded on all 2^32 inputs (checked exhaustively, as exp_f32).
double tanh64(double x);

/// exp64 rounded once to binary32: correctly rounded on all 2^32 inputs. Checked exhaustively
/// (tests/proof_elementary.cc) against double-doubles with a proved bound; MPFR decided the 3 inputs that lie too near
/// a midpoint for that.
float exp_f32(float x);

/// log64 rounded once to binary32: correctly rounded on all of the 2^32 inputs but 5 (checked exhaustively, as exp_f32;
/// 28 by MPFR).
float log_f32(float x);

}  // namespace fp4sim::scalar
