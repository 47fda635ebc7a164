# Debian packages by CPack (packaging/deb/build.sh): shared libraries, programs, and what is needed to
# build a program. A build with CUDA makes packages of other names, whose libraries take the place of
# those without: programs find either by the same SONAME. A build of static libraries has no package of
# libraries to run with.

set(ferrite_suffix "")
if(FERRITE_HAVE_CUDA AND NOT FERRITE_CUDA_EMULATOR)
  set(ferrite_suffix -cuda)
endif()
set(ferrite_runtime libferrite${ferrite_abi}${ferrite_suffix})
set(ferrite_tools ferrite${ferrite_suffix})
set(ferrite_dev libferrite${ferrite_suffix}-dev)

# Where Debian looks for what a package may be used for.
foreach(component IN ITEMS runtime tools dev)
  if(component STREQUAL "runtime" AND NOT BUILD_SHARED_LIBS)
    continue()
  endif()
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${ferrite_${component}} RENAME copyright
          COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Debian's policy (5.6.2) requires the name and a working address of who answers for the package. For packages that
# nobody publishes it is whoever built them: as DEBFULLNAME and DEBEMAIL say, which Debian's tools read, or else the
# administrator of that machine.
set(contact "Local build <root@localhost>")
if(NOT "$ENV{DEBFULLNAME}" STREQUAL "" AND NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer of the Debian packages, as \"name <address>\"")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_COMPONENTS_ALL tools dev)
set(same "= ${PROJECT_VERSION}")
if(BUILD_SHARED_LIBS)
  list(PREPEND CPACK_COMPONENTS_ALL runtime)
  # The linker's cache, which programs find libraries by, is renewed on installation.
  file(WRITE ${PROJECT_BINARY_DIR}/deb/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/triggers)
  set(libraries "libferrite${ferrite_abi} (${same}) | libferrite${ferrite_abi}-cuda (${same})")
  if(ferrite_suffix)
    set(libraries "${ferrite_runtime} (${same})")
  endif()
  set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${libraries}")
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${libraries}, libfmt-dev")
else()
  # Static libraries leave it to the program to link what they use.
  set(needed libfmt-dev zlib1g-dev libdeflate-dev libpng-dev libjpeg-dev libssl-dev)
  foreach(optional IN ITEMS GLOO:libgloo-dev HDF5:libhdf5-dev ONNX:libonnx-dev ONNX:libprotobuf-dev)
    string(REPLACE ":" ";" optional ${optional})
    list(POP_FRONT optional name)
    if(FERRITE_HAVE_${name})
      list(APPEND needed ${optional})
    endif()
  endforeach()
  list(JOIN needed ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
endif()
foreach(component IN ITEMS RUNTIME TOOLS)
  set(CPACK_DEBIAN_${component}_PACKAGE_SHLIBDEPS ON)
endforeach()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

if(ferrite_suffix)
  # CUDA's runtime comes from NVIDIA's packages; cuDNN, cuBLASLt, cuSOLVER, cuFFT and NCCL are loaded when
  # they are first used, if they are there.
  string(REPLACE "." "-" toolkit ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS cuda-cudart-${toolkit})
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", cuda-cudart-dev-${toolkit}")
  # They have the files of the packages without CUDA, and stand for them.
  set(other_RUNTIME libferrite${ferrite_abi})
  set(other_TOOLS ferrite)
  set(other_DEV libferrite-dev)
  foreach(component IN ITEMS RUNTIME TOOLS DEV)
    set(CPACK_DEBIAN_${component}_PACKAGE_PROVIDES "${other_${component}} (${same})")
    set(CPACK_DEBIAN_${component}_PACKAGE_CONFLICTS ${other_${component}})
    set(CPACK_DEBIAN_${component}_PACKAGE_REPLACES ${other_${component}})
  endforeach()
endif()

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${ferrite_runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared libraries of Ferrite, for programs that use them")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME ${ferrite_tools})
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "ferrite-run, which starts distributed jobs, and ferrite-inspect, which reads files of tensors")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME ${ferrite_dev})
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers of Ferrite, its CMake package and its pkg-config file")
include(CPack)
