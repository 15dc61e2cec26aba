# Test programs of room fuzz.
fp4sim_test(fuzz_lockstep_test LIBS fp4sim_fuzz LABELS unit SOURCES fuzz_lockstep_test.cc)
fp4sim_test(fuzz_generators_test LIBS fp4sim_fuzz LABELS property SOURCES fuzz_generators_test.cc)
fp4sim_test(fuzz_mutants_test LIBS fp4sim_fuzz LABELS differential SOURCES fuzz_mutants_test.cc)
fp4sim_test(fuzz_differential_test LIBS fp4sim_fuzz LABELS differential SOURCES fuzz_differential_test.cc)
fp4sim_test(fuzz_golden_test LIBS fp4sim_fuzz LABELS golden SOURCES fuzz_golden_test.cc)
fp4sim_test(fuzz_end_to_end_test LIBS fp4sim_fuzz LABELS differential e2e slow SOURCES fuzz_end_to_end_test.cc)
fp4sim_test(fuzz_cases_test LIBS fp4sim_fuzz LABELS golden differential SOURCES fuzz_cases_test.cc)
add_test(NAME Fuzz.commands_print_and_exit_as_documented
  COMMAND ${PROJECT_SOURCE_DIR}/tests/fuzz_commands.sh $<TARGET_FILE:fp4sim> ${PROJECT_SOURCE_DIR}/golden)
set_tests_properties(Fuzz.commands_print_and_exit_as_documented PROPERTIES LABELS e2e TIMEOUT 120)
fp4sim_test(fuzz_recipes_test LIBS fp4sim_fuzz LABELS property differential e2e SOURCES fuzz_recipes_test.cc)
