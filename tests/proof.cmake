# Proofs: what holds for all inputs is tried on all of them. proof_test takes seconds; proof_exhaustive walks through 2^32
# inputs a test (label slow, a minute or two each on two threads; OMP_NUM_THREADS).
find_path(FP4SIM_CUDA_INCLUDE cuda_fp4.h HINTS /usr/local/cuda/include ENV CUDA_PATH PATH_SUFFIXES include)
add_library(fp4sim_proof_cuda STATIC proof_cuda.cc)
target_include_directories(fp4sim_proof_cuda PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(fp4sim_proof_cuda PRIVATE fp4sim_flags)
if(FP4SIM_CUDA_INCLUDE)
  target_include_directories(fp4sim_proof_cuda SYSTEM PRIVATE ${FP4SIM_CUDA_INCLUDE})
  target_compile_definitions(fp4sim_proof_cuda PRIVATE FP4SIM_CUDA_HEADERS)
else()
  message(STATUS "cuda_fp4.h not found: comparisons with CUDA's headers are skipped")
endif()

fp4sim_test(proof_test LIBS fp4sim_scalar fp4sim_simd fp4sim_proof_cuda LABELS differential
  SOURCES proof_codec_test.cc proof_stochastic_test.cc proof_outside_test.cc)

add_executable(proof_exhaustive proof_exhaustive.cc proof_scales.cc)
target_include_directories(proof_exhaustive PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(proof_exhaustive PRIVATE fp4sim_flags fp4sim_scalar fp4sim_simd fp4sim_proof_cuda GTest::gtest_main
  OpenMP::OpenMP_CXX)
if(FP4SIM_MPFR)  # scalar.cmake looks for it
  target_sources(proof_exhaustive PRIVATE proof_elementary.cc)
  target_link_libraries(proof_exhaustive PRIVATE mpfr gmp)
endif()
gtest_discover_tests(proof_exhaustive DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "slow" TIMEOUT 3000 RUN_SERIAL ON)

fp4sim_test(proof_parsers_test LIBS fp4sim_parser_targets LABELS unit property SOURCES proof_parsers_test.cc)
