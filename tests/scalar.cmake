# Test programs of room scalar.
find_library(FP4SIM_MPFR mpfr)
if(FP4SIM_MPFR)
  fp4sim_test(scalar_elementary_test LIBS fp4sim_scalar mpfr gmp LABELS unit SOURCES scalar_elementary_test.cc)
else()
  message(STATUS "libmpfr not found: scalar_elementary_test is not built")
endif()
fp4sim_test(scalar_sums_test LIBS fp4sim_scalar LABELS unit property SOURCES scalar_reduction_test.cc scalar_dot_test.cc)
fp4sim_test(scalar_codec_test LIBS fp4sim::scalar LABELS unit SOURCES scalar_codec_test.cc)
fp4sim_test(scalar_golden_test LIBS fp4sim::scalar LABELS golden SOURCES scalar_golden_test.cc)
fp4sim_test(scalar_product_test LIBS fp4sim_scalar LABELS unit property SOURCES scalar_matmul_test.cc scalar_sparse_matmul_test.cc)
fp4sim_test(scalar_quantize_test LIBS fp4sim::scalar LABELS unit
  SOURCES scalar_scale_test.cc scalar_quantize_test.cc scalar_estimator_test.cc scalar_every_spec_test.cc
  scalar_occ_test.cc)
fp4sim_test(scalar_rows_test LIBS fp4sim_scalar LABELS unit SOURCES scalar_rows_test.cc)
fp4sim_test(scalar_ops_test LIBS fp4sim_scalar LABELS unit
  SOURCES scalar_elementwise_test.cc scalar_table_test.cc scalar_optimizer_test.cc)
