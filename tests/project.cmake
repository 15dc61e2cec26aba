# Tests of the project itself: room table, style, documents, installation.
foreach(check includes style docs)
  add_test(NAME Project.${check} COMMAND ${PROJECT_SOURCE_DIR}/tests/check_${check}.sh ${PROJECT_SOURCE_DIR})
  add_test(NAME Project.${check}_check_catches_planted_faults
    COMMAND ${PROJECT_SOURCE_DIR}/tests/check_${check}.sh --self-test)
  set_tests_properties(Project.${check} Project.${check}_check_catches_planted_faults PROPERTIES LABELS unit TIMEOUT 60)
endforeach()

# A consumer of a sanitized build has to link the sanitizers too.
set(consumer_flags "")
if(FP4SIM_SANITIZE)
  set(consumer_flags "-fsanitize=address,undefined")
endif()
add_test(NAME Project.an_installed_package_builds_and_runs_a_consumer
  COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/consumer
          -DWORK=${PROJECT_BINARY_DIR}/consumer -DCOMPILER=${CMAKE_CXX_COMPILER} -DFLAGS=${consumer_flags}
          -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)
set_tests_properties(Project.an_installed_package_builds_and_runs_a_consumer PROPERTIES LABELS e2e TIMEOUT 300)
