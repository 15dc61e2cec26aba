# Test programs of room gpu. Device functions compiled for the host run everywhere; label gpu needs a device: without one
# its tests are skipped, with FP4SIM_REQUIRE_GPU=1 in the environment they fail.
fp4sim_test(gpu_functions_test LIBS fp4sim_scalar LABELS unit SOURCES gpu_functions_test.cc gpu_codec_test.cc)
if(FP4SIM_WITH_CUDA)
  fp4sim_test(gpu_device_test LIBS fp4sim_fuzz fp4sim_gpu LABELS gpu SOURCES gpu_attention_test.cc gpu_backend_test.cc gpu_differential_test.cc gpu_observed_sums_test.cc gpu_products_test.cc gpu_product_plans_test.cc
    gpu_norm_plans_test.cc gpu_schedule_test.cc gpu_sums_test.cc gpu_tiles_test.cc gpu_training_test.cc)
  add_test(NAME Gpu.no_program_needs_the_driver COMMAND ${PROJECT_SOURCE_DIR}/tests/gpu_program.sh $<TARGET_FILE:fp4sim>)
  set_tests_properties(Gpu.no_program_needs_the_driver PROPERTIES LABELS unit TIMEOUT 60)
  # All 2^32 inputs: minutes on sixteen cores and a device.
  add_executable(gpu_sweep_test gpu_sweep_test.cc gpu_sweep_groups.cc gpu_sweep_functions.cu)
  target_include_directories(gpu_sweep_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(gpu_sweep_test PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${FP4SIM_FAST_CUDA_FLAGS}>")
  target_link_libraries(gpu_sweep_test PRIVATE fp4sim_flags fp4sim_gpu fp4sim_scalar fp4sim_simd GTest::gtest
    fmt::fmt-header-only)
  add_test(NAME Gpu.all_inputs_give_the_bits_of_simd COMMAND gpu_sweep_test)
  set_tests_properties(Gpu.all_inputs_give_the_bits_of_simd PROPERTIES LABELS "gpu,slow" TIMEOUT 3000 RUN_SERIAL ON
    SKIP_RETURN_CODE 77)
  # What a machine with a device gets (./dev cuda); bench adds its program.
  add_custom_target(fp4sim_gpu_programs DEPENDS fp4sim gpu_functions_test gpu_device_test gpu_sweep_test)
endif()
