# Installs the libraries, the headers below include/ferrite/ as they lie in the tree, and the package
# files by which find_package(ferrite) gives ferrite::ferrite and a target for each folder.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(ferrite_include ${CMAKE_INSTALL_INCLUDEDIR}/ferrite)
set(ferrite_package ${CMAKE_INSTALL_LIBDIR}/cmake/ferrite)

set(ferrite_targets ferrite_ferrite)
foreach(library IN LISTS FERRITE_LIBRARIES)
  list(APPEND ferrite_targets ferrite_${library})
  install(DIRECTORY ${library} DESTINATION ${ferrite_include}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh"
          PATTERN launcher EXCLUDE)  # a program's
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/ferrite.h)
  install(FILES ferrite.h DESTINATION ${ferrite_include})
endif()
# The kit that users' kernels are tested with as well (docs/kernels.md).
install(FILES tests/kit/kernel_case.h tests/kit/doctest_context.h
        DESTINATION ${ferrite_include}/tests/kit)
list(APPEND ferrite_targets ferrite_test_kit)
install(TARGETS ${ferrite_targets} EXPORT ferrite-targets INCLUDES DESTINATION ${ferrite_include})
foreach(level IN LISTS FERRITE_ISA_LEVELS)
  install(TARGETS ferrite_kernels_${level} DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level})
endforeach()
install(EXPORT ferrite-targets NAMESPACE ferrite:: DESTINATION ${ferrite_package})

configure_package_config_file(cmake/ferrite-config.cmake.in
  ${PROJECT_BINARY_DIR}/ferrite-config.cmake INSTALL_DESTINATION ${ferrite_package})
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ferrite-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ferrite-config.cmake
              ${PROJECT_BINARY_DIR}/ferrite-config-version.cmake
              cmake/FindDeflate.cmake cmake/FindOneDNN.cmake
        DESTINATION ${ferrite_package})
