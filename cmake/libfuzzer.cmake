# FP4SIM_LIBFUZZER=ON: only the parsers and one libFuzzer program for each, instrumented with AddressSanitizer and
# UndefinedBehaviorSanitizer. Nothing else of the project is built.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "FP4SIM_LIBFUZZER needs clang++, which brings libFuzzer: configure with -DCMAKE_CXX_COMPILER=clang++ "
    "(./dev fuzz --parsers does it)")
endif()
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
set(FP4SIM_LIBFUZZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_compile_options(fp4sim_flags INTERFACE -fsanitize=fuzzer-no-link ${FP4SIM_LIBFUZZER_FLAGS}
  -Wno-unknown-warning-option -Wno-error)
target_link_options(fp4sim_flags INTERFACE ${FP4SIM_LIBFUZZER_FLAGS})
add_subdirectory(reference/contract)
add_subdirectory(cli/io)
add_subdirectory(cli/train)
add_subdirectory(fuzz/parsers)
