# Flags that carry numerics.md §1: nothing contracted or reassociated, subnormals kept. Every target links `fp4sim_flags`.
add_library(fp4sim_flags INTERFACE)
set(FP4SIM_CXX_FLAGS -ffp-contract=off -fno-fast-math -Wall -Wextra -Wshadow -Wno-missing-field-initializers
  -Wno-array-bounds -Wno-restrict)  # g++ 12 warns falsely about std::string concatenation
# The host side of .cu files gets the same arithmetic; -Wshadow would report nvcc's own generated code.
set(FP4SIM_CUDA_FLAGS --fmad=false -ftz=false -prec-div=true -prec-sqrt=true
  -Xcompiler=-ffp-contract=off,-fno-fast-math,-Wall,-Wextra,-Wno-missing-field-initializers)
if(FP4SIM_WERROR)
  list(APPEND FP4SIM_CXX_FLAGS -Werror)
  list(APPEND FP4SIM_CUDA_FLAGS -Werror=all-warnings)
endif()
target_compile_options(fp4sim_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${FP4SIM_CXX_FLAGS}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:${FP4SIM_CUDA_FLAGS}>")
if(FP4SIM_SANITIZE)
  target_compile_options(fp4sim_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Large functions make the same checks by calls: inline they take g++ a quarter of the time of the kernels.
  target_compile_options(fp4sim_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:--param=asan-instrumentation-with-call-threshold=50>")
  # g++ 12 warns falsely in instrumented library code (<regex>).
  target_compile_options(fp4sim_flags INTERFACE -Wno-maybe-uninitialized)
  target_link_options(fp4sim_flags INTERFACE -fsanitize=address,undefined)
endif()

if(FP4SIM_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

# fp4sim_library(<room> <sources…>): static library fp4sim_<room>, alias fp4sim::<room>, include root = repository root.
function(fp4sim_library room)
  add_library(fp4sim_${room} STATIC ${ARGN})
  add_library(fp4sim::${room} ALIAS fp4sim_${room})
  set_target_properties(fp4sim_${room} PROPERTIES EXPORT_NAME ${room})
  target_compile_features(fp4sim_${room} PUBLIC cxx_std_20)
  target_include_directories(fp4sim_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/fp4sim>)
  target_link_libraries(fp4sim_${room} PRIVATE $<BUILD_INTERFACE:fp4sim_flags>)
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/reference/")
    target_compile_options(fp4sim_${room} PRIVATE ${FP4SIM_REFERENCE_FLAGS})
  endif()
endfunction()
