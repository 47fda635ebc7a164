# Options at configure time, and their defaults.

set(FERRITE_ISA native CACHE STRING
    "Instruction set to compile for, as -march= takes it: native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4 ...")
set(FERRITE_ISA_LEVELS "" CACHE STRING
    "Levels above it for which the kernels are compiled again, for the loader to choose from (BUILD_SHARED_LIBS)")
option(BUILD_SHARED_LIBS "Build shared libraries" OFF)
set(FERRITE_TEST_LEVELS "" CACHE STRING
    "Levels for which the tests of kernels, ops and nn run with kernels compiled again (target level_tests)")
option(FERRITE_WERROR "Treat compiler warnings as errors" OFF)
option(FERRITE_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FERRITE_EXAMPLES "Build the example programs" ${PROJECT_IS_TOP_LEVEL})
option(FERRITE_BENCHMARKS "Build the benchmarks" OFF)

set(FERRITE_CUDA AUTO CACHE STRING
    "Build the CUDA backend: AUTO (where the toolkit is), ON, OFF, or EMULATOR (kernels on the CPU)")
set(FERRITE_CUBLASLT AUTO CACHE STRING "Use cuBLASLt's products: AUTO (where found), ON or OFF")
set(FERRITE_CUSOLVER AUTO CACHE STRING "Use cuSOLVER's factors of matrices: AUTO (where found), ON or OFF")
set(FERRITE_CUDNN AUTO CACHE STRING "Use cuDNN's convolutions and attention: AUTO (where found), ON or OFF")
set(FERRITE_CUFFT AUTO CACHE STRING "Use cuFFT, for Fourier transforms: AUTO (where found), ON or OFF")
set(FERRITE_NCCL AUTO CACHE STRING "Build the nccl process groups: AUTO (where found), ON or OFF")
set(FERRITE_GLOO AUTO CACHE STRING "Build the gloo process groups: AUTO (where found), ON or OFF")
set(FERRITE_HDF5 AUTO CACHE STRING "Build the component hdf5: AUTO (where found), ON or OFF")
set(FERRITE_ONNX AUTO CACHE STRING "Build the component onnx: AUTO (where found), ON or OFF")
set(FERRITE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them, e.g. address,undefined")
option(FERRITE_SANITIZE_TESTS "Compile the tests, too, with these sanitizers; always with that of threads" ON)
set(FERRITE_BATCH 12 CACHE STRING
    "Compile small files in batches of up to so many: from scratch in half the time (1: each alone)")
option(FERRITE_EMULATOR_RACE "Look for data races in kernels (FERRITE_CUDA=EMULATOR)" OFF)
option(FERRITE_COVERAGE "Count the lines of kernels that run (FERRITE_CUDA=EMULATOR)" OFF)
set(FERRITE_EXTRA_PROJECTS "" CACHE STRING
    "Folders of other projects to build along, e.g. users' kernels to be run on the emulator")
set_property(CACHE FERRITE_CUDA PROPERTY STRINGS AUTO ON OFF EMULATOR)
set_property(CACHE FERRITE_CUBLASLT FERRITE_CUSOLVER FERRITE_CUDNN FERRITE_CUFFT FERRITE_NCCL FERRITE_GLOO
             FERRITE_HDF5 FERRITE_ONNX PROPERTY STRINGS AUTO ON OFF)

foreach(name IN ITEMS FERRITE_CUDA FERRITE_CUBLASLT FERRITE_CUSOLVER FERRITE_CUDNN FERRITE_CUFFT FERRITE_NCCL
             FERRITE_GLOO FERRITE_HDF5 FERRITE_ONNX)
  string(TOUPPER "${${name}}" value)
  get_property(allowed CACHE ${name} PROPERTY STRINGS)
  if(NOT value IN_LIST allowed)
    list(JOIN allowed ", " allowed)
    message(FATAL_ERROR "${name} is \"${${name}}\"; it must be one of ${allowed}")
  endif()
  set(${name} ${value})
endforeach()

if(NOT FERRITE_BATCH MATCHES "^[1-9][0-9]*$")
  message(FATAL_ERROR "FERRITE_BATCH is \"${FERRITE_BATCH}\"; it must be a whole number of 1 or more")
endif()

set_property(CACHE FERRITE_ISA PROPERTY STRINGS native x86-64 x86-64-v2 x86-64-v3 x86-64-v4)
if(DEFINED FERRITE_NATIVE AND NOT FERRITE_NATIVE)
  message(FATAL_ERROR "FERRITE_NATIVE=OFF is now -DFERRITE_ISA=x86-64, or another that -march= takes "
                      "(-UFERRITE_NATIVE forgets the old option)")
endif()
if(FERRITE_ISA_LEVELS)
  if(NOT BUILD_SHARED_LIBS)
    message(FATAL_ERROR "FERRITE_ISA_LEVELS needs BUILD_SHARED_LIBS=ON: the loader chooses the library")
  endif()
  if(FERRITE_ISA STREQUAL "native")
    message(FATAL_ERROR "FERRITE_ISA_LEVELS is for programs that run elsewhere: set FERRITE_ISA to the "
                        "lowest level that they shall run on, e.g. x86-64")
  endif()
  foreach(level IN LISTS FERRITE_ISA_LEVELS)
    if(NOT level MATCHES "^x86-64-v[234]$"
       OR (FERRITE_ISA MATCHES "^x86-64" AND NOT level STRGREATER FERRITE_ISA))
      message(FATAL_ERROR "FERRITE_ISA_LEVELS has \"${level}\"; the C library's loader knows x86-64-v2, "
                          "x86-64-v3 and x86-64-v4, and what is above FERRITE_ISA=${FERRITE_ISA} is of use")
    endif()
  endforeach()
endif()

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT multi_config AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
endif()

find_program(FERRITE_CCACHE ccache)
mark_as_advanced(FERRITE_CCACHE)
if(FERRITE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are relative to the tree, so that clones and worktrees share compiled objects. Without
  # the sloppiness settings, nothing that uses a precompiled header would be cached. Headers are
  # compared by content (depend mode), not after preprocessing: a precompiled header identifies
  # its inputs by their bytes, and an older one would be rejected after a change in a comment.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${FERRITE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
