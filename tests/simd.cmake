# Test programs of room simd.
fp4sim_test(simd_elementary_test LIBS fp4sim_simd LABELS unit property SOURCES simd_elementary_test.cc)
fp4sim_test(simd_elementwise_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_elementwise_test.cc)
fp4sim_test(simd_rows_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_rows_test.cc)
fp4sim_test(simd_matmul_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_matmul_test.cc)
fp4sim_test(simd_quantize_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_quantize_test.cc)
fp4sim_test(simd_quantize_oracle_test LIBS fp4sim_simd LABELS unit SOURCES simd_quantize_oracle_test.cc)
fp4sim_test(simd_transforms_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_transforms_test.cc)
