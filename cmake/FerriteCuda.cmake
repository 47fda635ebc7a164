# The CUDA backend: compiled by nvcc if there is a toolkit (no GPU is needed to build), or by the
# host's compiler against the emulator in tests/emulator, which runs kernels on the CPU.
#
# Defines FERRITE_HAVE_CUDA, FERRITE_CUDA_EMULATOR and FERRITE_CUDA_RUNTIME, the target that CUDA
# sources link.

set(FERRITE_HAVE_CUDA OFF)
set(FERRITE_CUDA_EMULATOR OFF)
set(FERRITE_CUDA_RUNTIME "")

if(FERRITE_CUDA STREQUAL "OFF")
  set(ferrite_cuda_reason "FERRITE_CUDA=OFF")
else()
  find_package(CUDAToolkit 12.8 QUIET)
  if(CUDAToolkit_FOUND)
    set(FERRITE_HAVE_CUDA ON)
    set(ferrite_cuda_reason "toolkit ${CUDAToolkit_VERSION}")
  else()
    set(ferrite_cuda_reason "toolkit 12.8 or later not found")
    if(CUDAToolkit_VERSION)
      string(APPEND ferrite_cuda_reason ", only ${CUDAToolkit_VERSION}")
    endif()
    if(NOT FERRITE_CUDA STREQUAL "AUTO")
      message(FATAL_ERROR "FERRITE_CUDA=${FERRITE_CUDA} needs the CUDA toolkit (the emulator only its "
                          "headers): ${ferrite_cuda_reason}. Install it, or set CUDAToolkit_ROOT to "
                          "where it is")
    endif()
  endif()
endif()

if(FERRITE_CUDA STREQUAL "EMULATOR")
  set(FERRITE_CUDA_EMULATOR ON)
  set(FERRITE_CUDA_RUNTIME $<BUILD_INTERFACE:ferrite_emulator>)  # not installed
  set(ferrite_cuda_reason "emulator, headers of ${CUDAToolkit_VERSION}")
elseif(FERRITE_HAVE_CUDA)
  set(FERRITE_CUDA_RUNTIME CUDA::cudart_static)
  if(BUILD_SHARED_LIBS)  # one for all libraries of a program
    set(FERRITE_CUDA_RUNTIME CUDA::cudart)
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # One architecture keeps builds short: that of the present GPU, or 90 if there is none.
    set(architecture 90)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET)
    if(failed EQUAL 0 AND found MATCHES "^([0-9]+)\\.([0-9]+)")
      set(architecture ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${architecture} CACHE STRING "GPU architectures to compile for")
  endif()
  enable_language(CUDA)
  # For nvcc, -O applies only to the host part of a source, which just launches: GPU code always
  # gets -O3.
  foreach(config IN ITEMS RELEASE RELWITHDEBINFO)
    string(REGEX REPLACE "-O[23]" "-O1" CMAKE_CUDA_FLAGS_${config} "${CMAKE_CUDA_FLAGS_${config}}")
  endforeach()
  # CMake 3.25 does not know that nvcc supports C++20, and refuses; later versions set these.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  # fmt 9 drops constexpr from half of its functions under nvcc, and then does not compile.
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1>)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -Wall,-Wextra>")
  # Packages name /usr/include; passed to nvcc as -isystem it breaks the standard library's
  # #include_next, so CMake must treat it as an implicit directory and leave it out.
  list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
endif()

if(FERRITE_COVERAGE)
  add_link_options(--coverage)
endif()

# Compiles .cu files of the calling folder for the emulator: as C++, with what the options ask for. -O1
# takes half of -O3's time to compile, and kernels of tests are small.
function(ferrite_emulate_sources)
  set(options -xc++ -Wno-unknown-pragmas -O1)
  if(FERRITE_EMULATOR_RACE)
    # Volatile accesses are not data races on a GPU; -g1 gives reports their lines.
    list(APPEND options -fsanitize=thread --param=tsan-distinguish-volatile=1 -g1)
    if(FERRITE_SANITIZE)
      # The race detector checks bounds and alignment itself.
      list(PREPEND options -fno-sanitize=address,alignment)
    endif()
  endif()
  if(FERRITE_COVERAGE)
    list(APPEND options --coverage)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES
    LANGUAGE CXX COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
