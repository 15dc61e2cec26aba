# FP4SIM_CUDA=AUTO|ON|OFF decides on the room gpu; sets FP4SIM_WITH_CUDA. The runtime is linked statically and looks for
# the driver when it is first used, so a program with the cuda backend also runs where there is none.
set(FP4SIM_CUDA OFF CACHE STRING "The cuda backend: ON, OFF, or AUTO (where a CUDA compiler is found)")
set_property(CACHE FP4SIM_CUDA PROPERTY STRINGS AUTO ON OFF)
option(FP4SIM_CUDA_FAST_COMPILE "Device code is compiled and hardly optimized where nvcc can and no device runs it" OFF)
set(FP4SIM_WITH_CUDA OFF)
if(FP4SIM_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(FP4SIM_WITH_CUDA ON)
  endif()
elseif(FP4SIM_CUDA)
  set(FP4SIM_WITH_CUDA ON)
endif()

if(FP4SIM_WITH_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)  # sm_90 and, for later devices, compute_90 PTX
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(FP4SIM_FAST_CUDA_FLAGS "")
  if(FP4SIM_CUDA_FAST_COMPILE AND NOT EXISTS /dev/nvidiactl)  # the driver's: beside a device tests run what is shipped
    include(CheckCompilerFlag)
    check_compiler_flag(CUDA -Ofc=max FP4SIM_NVCC_HAS_FAST_COMPILE)  # older releases have no such option
    if(FP4SIM_NVCC_HAS_FAST_COMPILE)
      set(FP4SIM_FAST_CUDA_FLAGS -Ofc=max)
    endif()
  endif()
endif()
message(STATUS "cuda backend: ${FP4SIM_WITH_CUDA}")
