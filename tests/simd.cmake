# Test programs of room simd.
fp4sim_test(simd_elementary_test LIBS fp4sim_simd LABELS unit property SOURCES simd_elementary_test.cc)
fp4sim_test(simd_elementwise_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_elementwise_test.cc)
fp4sim_test(simd_rows_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_rows_test.cc)
fp4sim_test(simd_matmul_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_matmul_test.cc simd_sparse_matmul_test.cc)
fp4sim_test(simd_quantize_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_quantize_test.cc)
fp4sim_test(simd_quantize_oracle_test LIBS fp4sim_simd LABELS unit SOURCES simd_quantize_oracle_test.cc)
fp4sim_test(simd_transforms_test LIBS fp4sim_simd fp4sim_scalar LABELS property differential SOURCES simd_transforms_test.cc)

# Rules of the room that no compiler checks (architecture.md).
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(isa sse2 avx2 avx512 avx512vnni)
  add_test(NAME simd_weak_symbols_of_${isa}_carry_their_level
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/check_isa_symbols.py --nm ${CMAKE_NM} --level ${isa}
            $<TARGET_OBJECTS:fp4sim_simd_${isa}>
    COMMAND_EXPAND_LISTS)
endforeach()
add_test(NAME simd_uses_no_forbidden_function
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/check_simd_words.py ${PROJECT_SOURCE_DIR}/reference/simd)
set_tests_properties(simd_weak_symbols_of_sse2_carry_their_level simd_weak_symbols_of_avx2_carry_their_level
  simd_weak_symbols_of_avx512_carry_their_level simd_weak_symbols_of_avx512vnni_carry_their_level
  simd_uses_no_forbidden_function PROPERTIES LABELS unit)
