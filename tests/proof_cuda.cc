// CUDA's headers compiled for the host: their assertions stay on, whatever the build type.
#undef NDEBUG
#include "tests/proof_cuda.h"

#include <stdexcept>

#ifdef FP4SIM_CUDA_HEADERS
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#endif

namespace fp4sim::test {

#ifdef FP4SIM_CUDA_HEADERS

bool cuda_headers_installed() { return true; }

namespace {

uint32_t fp8_code(const CudaConversion& c, float x, __nv_fp8_interpretation_t kind) {
  const uint32_t code = __nv_cvt_float_to_fp8(x, c.ieee ? __NV_NOSAT : __NV_SATFINITE, kind);
  const bool nan =
      (code & 0x7Fu) > (c.format.specials == Specials::ieee ? inf_code(c.format) : max_normal_code(c.format));
  return nan ? nan_code(c.format) : code;
}

float half_value(__half_raw raw) { return __half2float(__half(raw)); }

}  // namespace

uint32_t cuda_code(const CudaConversion& c, float x) {
  const cudaRoundMode rounding = c.rounding == Rounding::rne ? cudaRoundNearest : cudaRoundZero;
  if (c.format == kE2m1) return __nv_cvt_float_to_fp4(x, __NV_E2M1, rounding);
  if (c.format == kE2m3) return __nv_cvt_float_to_fp6(x, __NV_E2M3, rounding);
  if (c.format == kE3m2) return __nv_cvt_float_to_fp6(x, __NV_E3M2, rounding);
  if (c.format == kE4m3) return fp8_code(c, x, __NV_E4M3);
  if (c.format == kE5m2) return fp8_code(c, x, __NV_E5M2);
  throw std::logic_error("CUDA's headers have no such format");
}

float cuda_value(const ElementFormat& f, uint32_t code) {
  const auto byte = static_cast<uint8_t>(code);
  if (f == kE2m1) return half_value(__nv_cvt_fp4_to_halfraw(byte, __NV_E2M1));
  if (f == kE2m3) return half_value(__nv_cvt_fp6_to_halfraw(byte, __NV_E2M3));
  if (f == kE3m2) return half_value(__nv_cvt_fp6_to_halfraw(byte, __NV_E3M2));
  if (f == kE4m3) return half_value(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3));
  if (f == kE5m2) return half_value(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2));
  throw std::logic_error("CUDA's headers have no such format");
}

uint32_t cuda_e8m0_code(float amax, bool up) {
  return __nv_cvt_float_to_e8m0(amax, __NV_SATFINITE, up ? cudaRoundPosInf : cudaRoundZero);
}

#else

bool cuda_headers_installed() { return false; }
uint32_t cuda_code(const CudaConversion&, float) { throw std::logic_error("CUDA's headers were not found"); }
float cuda_value(const ElementFormat&, uint32_t) { throw std::logic_error("CUDA's headers were not found"); }
uint32_t cuda_e8m0_code(float, bool) { throw std::logic_error("CUDA's headers were not found"); }

#endif

}  // namespace fp4sim::test
