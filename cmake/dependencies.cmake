# find_package only; `./dev deps` installs all of these on Debian 12. docs/dependencies.md says why each is here.
if(FP4SIM_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE FP4SIM_STATIC_GOMP
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(OpenMP_gomp_LIBRARY ${FP4SIM_STATIC_GOMP} CACHE FILEPATH "OpenMP's library, static")
endif()
find_package(fmt REQUIRED)
if(FP4SIM_FMT_LIBRARY)  # every target names the headers-only form: here it becomes the library
  set_target_properties(fmt::fmt-header-only PROPERTIES INTERFACE_COMPILE_DEFINITIONS "" INTERFACE_LINK_LIBRARIES fmt::fmt)
endif()
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(FP4SIM_PORTABLE)  # Debian has toml++ as a shared library only; its headers do without
  find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
  add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
  target_include_directories(tomlplusplus::tomlplusplus INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
  target_compile_definitions(tomlplusplus::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)
else()
  find_package(tomlplusplus REQUIRED)
endif()
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# Debian's xsimd 8.1 target names `xtl`, which is not installed and not needed without complex support.
if(NOT TARGET xtl)
  add_library(xtl INTERFACE IMPORTED)
endif()
find_package(xsimd REQUIRED)

find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
add_library(fp4sim_random123 INTERFACE)
target_include_directories(fp4sim_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})

if(FP4SIM_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(FP4SIM_BENCH)
  find_package(benchmark REQUIRED)
endif()
