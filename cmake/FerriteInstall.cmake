# Installs the libraries, the public headers below include/ferrite/ as they lie in the tree, and the package
# files by which find_package(ferrite) gives ferrite::ferrite and a target for each folder. The components
# hdf5, onnx and kernel_test (the kit and the emulator that kernels are tested with) are parts of their own.
# Those that were not built, and ferrite-run if it was not, are left out. Components of the installation:
# runtime (shared libraries), tools (programs), dev (the rest) and kernel_test.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# ferrite_with_included(<variable> <header>...): these headers, and the Ferrite headers they include.
function(ferrite_with_included variable)
  set(found)
  set(pending ${ARGN})
  while(pending)
    list(POP_FRONT pending header)
    if(header IN_LIST found OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      continue()
    endif()
    list(APPEND found ${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include [<\"]ferrite/")
    list(TRANSFORM includes REPLACE "^#include [<\"]ferrite/([^>\"]*).*" "\\1")
    list(APPEND pending ${includes})
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# ferrite_install_headers([COMPONENT <name>] <header>...)
function(ferrite_install_headers)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "COMPONENT" "")
  set(component COMPONENT dev)
  if(arg_COMPONENT)
    set(component COMPONENT ${arg_COMPONENT})
  endif()
  foreach(header IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${ferrite_include}/${folder} ${component})
  endforeach()
endfunction()

set(ferrite_include ${CMAKE_INSTALL_INCLUDEDIR}/ferrite)
set(ferrite_package ${CMAKE_INSTALL_LIBDIR}/cmake/ferrite)

set(public_headers ${PROJECT_SOURCE_DIR}/cmake/public_headers.txt)
file(STRINGS ${public_headers} headers REGEX "^[a-z].*[.](h|cuh)$")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_headers})
ferrite_install_headers(${headers})
ferrite_with_included(kit_headers tests/kit/kernel_case.h tests/kit/doctest_context.h)
list(REMOVE_ITEM kit_headers ${headers})
ferrite_install_headers(COMPONENT kernel_test ${kit_headers})

# ferrite_install_libraries(<export> [OPTIONAL] <target>...): libraries, and the file by which find_package
# finds them. OPTIONAL leaves out those that were not built.
function(ferrite_install_libraries export)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIONAL" "" "")
  set(optional)
  if(arg_OPTIONAL)
    set(optional OPTIONAL)
  endif()
  install(TARGETS ${arg_UNPARSED_ARGUMENTS} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime ${optional} NAMELINK_COMPONENT dev
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev ${optional}
          OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferrite COMPONENT dev
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${export} NAMESPACE ferrite:: DESTINATION ${ferrite_package} COMPONENT dev)
endfunction()

list(TRANSFORM FERRITE_LIBRARIES PREPEND ferrite_ OUTPUT_VARIABLE ferrite_targets)
ferrite_install_libraries(ferrite-targets ferrite_ferrite ferrite_cpu_only ${ferrite_targets})
foreach(level IN LISTS FERRITE_ISA_LEVELS)
  install(TARGETS ferrite_kernels_${level}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level} COMPONENT runtime NAMELINK_SKIP)
endforeach()
if(FERRITE_HAVE_HDF5)
  # The component hdf5, for which programs ask: find_package(ferrite COMPONENTS hdf5).
  file(GLOB hdf5_headers RELATIVE ${PROJECT_SOURCE_DIR} data/hdf5/*.h)
  ferrite_install_headers(${hdf5_headers})
  ferrite_install_libraries(ferrite-hdf5-targets OPTIONAL ferrite_hdf5)
endif()
if(FERRITE_HAVE_ONNX)
  # The component onnx. Its headers for users; the others need ONNX's and protobuf's.
  ferrite_install_headers(nn/onnx/onnx.h)
  ferrite_install_libraries(ferrite-onnx-targets OPTIONAL ferrite_onnx_file ferrite_onnx)
endif()
install(TARGETS ferrite_kernel_test EXPORT ferrite-kernel_test-targets COMPONENT kernel_test OPTIONAL
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ferrite-kernel_test-targets NAMESPACE ferrite:: DESTINATION ${ferrite_package}
        COMPONENT kernel_test)
if(TARGET ferrite_emulator_race)
  # Headers that stand before CUDA's own are on the include path of those who link the emulator alone.
  install(DIRECTORY tests/emulator/include/ferrite/emulator DESTINATION ${ferrite_include}
          COMPONENT kernel_test)
  install(DIRECTORY tests/emulator/include/ DESTINATION ${ferrite_include}/emulator/cuda
          COMPONENT kernel_test PATTERN ferrite EXCLUDE)
  install(TARGETS ferrite_emulator ferrite_emulator_race EXPORT ferrite-emulator-targets
          COMPONENT kernel_test OPTIONAL INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ferrite-emulator-targets NAMESPACE ferrite:: DESTINATION ${ferrite_package}
          COMPONENT kernel_test)
  install(FILES cmake/FerriteEmulate.cmake DESTINATION ${ferrite_package} COMPONENT kernel_test)
endif()

configure_package_config_file(cmake/ferrite-config.cmake.in
  ${PROJECT_BINARY_DIR}/ferrite-config.cmake INSTALL_DESTINATION ${ferrite_package}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 a minor version may change anything.
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ferrite-config-version.cmake
  COMPATIBILITY ${compatibility})
install(FILES ${PROJECT_BINARY_DIR}/ferrite-config.cmake
              ${PROJECT_BINARY_DIR}/ferrite-config-version.cmake
              cmake/FindDeflate.cmake cmake/FindHDF5C.cmake cmake/FindONNXProto.cmake
        DESTINATION ${ferrite_package} COMPONENT dev)

# ferrite.pc, for builds without CMake: c++ -std=c++20 main.cpp $(pkg-config --cflags --libs ferrite).
set(ferrite_pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." ferrite_up ${ferrite_pkgconfig})
set(ferrite_requires fmt)
set(ferrite_libs)
foreach(library IN ITEMS metrics parallel optim data nn ops autograd kernels core)  # users first
  list(APPEND ferrite_libs -lferrite_${library})
endforeach()
if(NOT BUILD_SHARED_LIBS)
  list(APPEND ferrite_requires zlib libdeflate libpng libjpeg libcrypto)
  if(FERRITE_HAVE_GLOO)
    list(APPEND ferrite_libs -lgloo)
  endif()
  if(FERRITE_HAVE_CUDA)
    list(APPEND ferrite_libs -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt)
  endif()
  list(APPEND ferrite_libs -ldl)
endif()
list(JOIN ferrite_requires ", " ferrite_requires)
list(JOIN ferrite_libs " " ferrite_libs)
set(ferrite_cuda $<BOOL:${FERRITE_HAVE_CUDA}>)
configure_file(cmake/ferrite.pc.in ${PROJECT_BINARY_DIR}/ferrite.pc.in @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/ferrite.pc INPUT ${PROJECT_BINARY_DIR}/ferrite.pc.in)
install(FILES ${PROJECT_BINARY_DIR}/ferrite.pc DESTINATION ${ferrite_pkgconfig} COMPONENT dev)
