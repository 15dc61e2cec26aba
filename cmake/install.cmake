# Install rules: the program, the libraries as fp4sim::contract|scalar|simd|io|train|gpu, and their headers under include/fp4sim.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Link-time needs of the static libraries that the build names through BUILD_INTERFACE only.
target_link_libraries(fp4sim_simd INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:OpenMP::OpenMP_CXX>>)
target_link_libraries(fp4sim_train INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:tomlplusplus::tomlplusplus>>)

set(FP4SIM_EXPORTED fp4sim_contract fp4sim_scalar fp4sim_simd fp4sim_io fp4sim_train)
if(FP4SIM_FMT_LIBRARY)
  foreach(target contract io train)
    target_link_libraries(fp4sim_${target} INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:fmt::fmt>>)
  endforeach()
endif()
if(FP4SIM_WITH_CUDA)
  list(APPEND FP4SIM_EXPORTED fp4sim_gpu)
  target_link_libraries(fp4sim_gpu INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:CUDA::cudart_static>>)
  install(FILES ${PROJECT_SOURCE_DIR}/gpu/backend.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fp4sim/gpu)
endif()
install(TARGETS fp4sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${FP4SIM_EXPORTED} EXPORT fp4sim ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# contract, io and train are interfaces throughout; a backend's interface is its backend.h, the rest is its own business.
set(FP4SIM_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/fp4sim)
foreach(room reference/contract cli/io cli/train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room}/ DESTINATION ${FP4SIM_INCLUDE}/${room}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
endforeach()
foreach(room reference/scalar reference/simd)
  install(FILES ${PROJECT_SOURCE_DIR}/${room}/backend.h DESTINATION ${FP4SIM_INCLUDE}/${room})
endforeach()

set(FP4SIM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/fp4sim)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fp4simConfig.cmake.in
  ${PROJECT_BINARY_DIR}/fp4simConfig.cmake INSTALL_DESTINATION ${FP4SIM_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fp4simConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT fp4sim NAMESPACE fp4sim:: FILE fp4simTargets.cmake DESTINATION ${FP4SIM_PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/fp4simConfig.cmake ${PROJECT_BINARY_DIR}/fp4simConfigVersion.cmake
  DESTINATION ${FP4SIM_PACKAGE_DIR})
