# Test programs of room cli.
fp4sim_test(cli_commands_test LIBS nlohmann_json::nlohmann_json LABELS e2e SOURCES cli_commands_test.cc)
target_compile_definitions(cli_commands_test PRIVATE FP4SIM_PROGRAM="$<TARGET_FILE:fp4sim>")
add_dependencies(cli_commands_test fp4sim)
fp4sim_test(cli_error_test LIBS fp4sim_io nlohmann_json::nlohmann_json LABELS e2e SOURCES cli_error_test.cc
  cli_error_statistics_test.cc ${PROJECT_SOURCE_DIR}/cli/commands/distributions.cc ${PROJECT_SOURCE_DIR}/cli/commands/error_statistics.cc)
target_compile_definitions(cli_error_test PRIVATE FP4SIM_PROGRAM="$<TARGET_FILE:fp4sim>")
add_dependencies(cli_error_test fp4sim)
add_test(NAME Cli.answers_bad_input_with_one_clear_line COMMAND ${PROJECT_SOURCE_DIR}/tests/bad_input.sh $<TARGET_FILE:fp4sim>)
add_test(NAME Cli.resumes_after_being_killed_at_20_random_moments COMMAND ${PROJECT_SOURCE_DIR}/tests/kill_and_resume.sh $<TARGET_FILE:fp4sim>)
set_tests_properties(Cli.answers_bad_input_with_one_clear_line Cli.resumes_after_being_killed_at_20_random_moments
  PROPERTIES LABELS e2e TIMEOUT 300)
add_test(NAME Cli.runs_the_commands_of_the_readme COMMAND ${PROJECT_SOURCE_DIR}/tests/readme_commands.sh $<TARGET_FILE:fp4sim> ${PROJECT_SOURCE_DIR}/README.md)
set_tests_properties(Cli.runs_the_commands_of_the_readme PROPERTIES LABELS e2e TIMEOUT 120)
fp4sim_test(cli_quantize_test LIBS fp4sim_io nlohmann_json::nlohmann_json LABELS e2e SOURCES cli_quantize_test.cc)
target_compile_definitions(cli_quantize_test PRIVATE FP4SIM_PROGRAM="$<TARGET_FILE:fp4sim>")
add_dependencies(cli_quantize_test fp4sim)
fp4sim_test(cli_packed_test LIBS fp4sim_packed fp4sim_scalar LABELS e2e SOURCES cli_packed_test.cc)
