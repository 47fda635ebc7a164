# cuBLASLt, cuSOLVER, cuDNN, cuFFT and NCCL, searched in this order: a prefix given by the user
# (FERRITE_CUDA_PREFIX), the toolkit, the distribution's packages, and Python wheels (nvidia-* in
# site-packages, installed by PyTorch without the .so links that linkers need). Each is optional;
# the summary says what is missing and how to get it.
#
# Defines for each FERRITE_HAVE_<name>, FERRITE_<name>_INCLUDE, since only headers are needed to
# build, and FERRITE_<name>_FOLDER, where a program looks for the library first. The emulator has
# its own NCCL and cuFFT, including headers, and its own cuSOLVER and cuDNN, for which NVIDIA's headers are needed.

set(FERRITE_CUDA_PREFIX "" CACHE STRING
    "Folders to look for cuBLASLt, cuSOLVER, cuDNN, cuFFT and NCCL in first: with include/ and lib/, or site-packages")

# The site-packages folders of the python3 on the PATH.
function(ferrite_site_packages result)
  set(folders)
  find_program(FERRITE_PYTHON3 python3)
  mark_as_advanced(FERRITE_PYTHON3)
  if(FERRITE_PYTHON3)
    execute_process(
      COMMAND ${FERRITE_PYTHON3} -c "import site, sys
paths = site.getsitepackages() + [site.getusersitepackages()] + sys.path
print(';'.join(p for p in paths if p.endswith('-packages')))"
      OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(REMOVE_DUPLICATES folders)
  endif()
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

# The version from a header's macros, as "<major>.<minor>.<patch>"; "" if they are missing.
function(ferrite_header_version result header prefix)
  set(version)
  if(EXISTS ${header})
    foreach(part IN LISTS ARGN)
      file(STRINGS ${header} line REGEX "^ *#define ${prefix}${part} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX REPLACE "^ *#define [A-Z_]+ +([0-9]+).*" "\\1" number "${line}")
      list(APPEND version ${number})
    endforeach()
  endif()
  list(JOIN version "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# ferrite_find_cuda_library(<name> HEADER <file> LIBRARY <names...> WHEELS <folders below
# nvidia/...>)
#
# Sets FERRITE_<name>_INCLUDE and FERRITE_<name>_LIBRARY (cached), FERRITE_<name>_FOLDER, and
# `where`, for the summary.
function(ferrite_find_cuda_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER" "LIBRARY;WHEELS")
  set(first ${FERRITE_CUDA_PREFIX})
  set(last)
  foreach(wheel IN LISTS arg_WHEELS)
    foreach(prefix IN LISTS FERRITE_CUDA_PREFIX)
      list(APPEND first ${prefix}/nvidia/${wheel})
    endforeach()
    foreach(site IN LISTS ferrite_sites)
      list(APPEND last ${site}/nvidia/${wheel})
    endforeach()
  endforeach()
  find_path(FERRITE_${name}_INCLUDE ${arg_HEADER}
            HINTS ${first} ${CUDAToolkit_INCLUDE_DIRS} PATHS ${last} PATH_SUFFIXES include)
  find_library(FERRITE_${name}_LIBRARY NAMES ${arg_LIBRARY}
               HINTS ${first} ${CUDAToolkit_LIBRARY_DIR} PATHS ${last} PATH_SUFFIXES lib lib64)
  mark_as_advanced(FERRITE_${name}_INCLUDE FERRITE_${name}_LIBRARY)
  set(where "headers alone: the library is looked for at run time")
  set(FERRITE_${name}_FOLDER "" PARENT_SCOPE)
  if(FERRITE_${name}_LIBRARY)
    set(where ${FERRITE_${name}_LIBRARY})
    get_filename_component(folder ${where} DIRECTORY)
    set(FERRITE_${name}_FOLDER ${folder} PARENT_SCOPE)
  endif()
  set(where ${where} PARENT_SCOPE)
endfunction()

# Sets FERRITE_HAVE_<name> and ferrite_<name>_reason; an error if the option FERRITE_<name> is ON
# and `problem` is not empty.
macro(ferrite_decide_cuda_library name problem found)
  if("${FERRITE_${name}}" STREQUAL "OFF")
    set(FERRITE_HAVE_${name} OFF)
    set(ferrite_${name}_reason "FERRITE_${name}=OFF")
  elseif("${problem}" STREQUAL "")
    set(FERRITE_HAVE_${name} ON)
    set(ferrite_${name}_reason "${found}")
  else()
    set(FERRITE_HAVE_${name} OFF)
    set(ferrite_${name}_reason "${problem}")
    if("${FERRITE_${name}}" STREQUAL "ON")
      message(FATAL_ERROR "FERRITE_${name}=ON, but: ${problem}")
    endif()
  endif()
endmacro()

if(NOT FERRITE_HAVE_CUDA OR FERRITE_CUDA_EMULATOR)
  set(problem "no GPUs are built for")
  if(FERRITE_CUDA_EMULATOR)
    find_path(FERRITE_CUBLASLT_INCLUDE cublasLt.h HINTS ${FERRITE_CUDA_PREFIX} ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(FERRITE_CUBLASLT_INCLUDE)
    set(problem "")
    if(NOT FERRITE_CUBLASLT_INCLUDE)
      set(problem "no cublasLt.h, whose functions the emulator has for tests")
    endif()
  endif()
  ferrite_decide_cuda_library(CUBLASLT "${problem}" "the emulator's, where tests ask for it")
  set(problem "")
  if(NOT FERRITE_CUDA_EMULATOR)
    set(problem "no GPUs are built for")
  endif()
  ferrite_decide_cuda_library(NCCL "${problem}" "the emulator's")
  ferrite_decide_cuda_library(CUFFT "${problem}" "the emulator's")
  if(FERRITE_CUDA_EMULATOR)
    find_path(FERRITE_CUSOLVER_INCLUDE cusolverDn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(FERRITE_CUSOLVER_INCLUDE)
    if(NOT FERRITE_CUSOLVER_INCLUDE)
      set(problem "no cusolverDn.h in the toolkit's headers")
    endif()
  endif()
  ferrite_decide_cuda_library(CUSOLVER "${problem}" "the emulator's")
  set(problem "no GPUs are built for")
  if(FERRITE_CUDA_EMULATOR)
    find_path(FERRITE_CUDNN_INCLUDE cudnn_graph.h HINTS ${FERRITE_CUDA_PREFIX} ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(FERRITE_CUDNN_INCLUDE)
    set(problem "")
    if(NOT FERRITE_CUDNN_INCLUDE)
      set(problem "no cudnn_graph.h, whose functions the emulator has for tests")
    endif()
  endif()
  ferrite_decide_cuda_library(CUDNN "${problem}" "the emulator's, where tests ask for it")
  return()
endif()

ferrite_site_packages(ferrite_sites)
set(major ${CUDAToolkit_VERSION_MAJOR})

ferrite_find_cuda_library(CUBLASLT HEADER cublasLt.h
  LIBRARY libcublasLt.so.${major} cublasLt WHEELS cublas cu${major})
set(problem "")
if(NOT FERRITE_CUBLASLT_INCLUDE)
  set(problem "not found, own products serve; apt-get install libcublas-dev-${major}-${CUDAToolkit_VERSION_MINOR} or pip install nvidia-cublas, and FERRITE_CUDA_PREFIX says where")
endif()
ferrite_header_version(version "${FERRITE_CUBLASLT_INCLUDE}/cublas_api.h" CUBLAS_VER_ MAJOR MINOR PATCH)
ferrite_decide_cuda_library(CUBLASLT "${problem}" "${version}, ${where}")

# Major versions do not follow the toolkit's: the header says which library belongs to it.
ferrite_find_cuda_library(CUSOLVER HEADER cusolverDn.h LIBRARY cusolver WHEELS cusolver cu${major})
set(problem "")
ferrite_header_version(version "${FERRITE_CUSOLVER_INCLUDE}/cusolver_common.h" CUSOLVER_VER_ MAJOR MINOR PATCH)
if(NOT FERRITE_CUSOLVER_INCLUDE)
  set(problem "not found, factors of matrices are computed on the host; apt-get install libcusolver-dev-${major}-${CUDAToolkit_VERSION_MINOR} or pip install nvidia-cusolver, and FERRITE_CUDA_PREFIX says where")
elseif(version VERSION_LESS 11.7.1)
  set(problem "${version} in ${FERRITE_CUSOLVER_INCLUDE} is older than 11.7.1, factors of matrices are computed on the host")
endif()
ferrite_decide_cuda_library(CUSOLVER "${problem}" "${version}, ${where}")

ferrite_find_cuda_library(CUDNN HEADER cudnn_graph.h LIBRARY libcudnn.so.9 cudnn WHEELS cudnn cu${major})
set(problem "")
if(NOT FERRITE_CUDNN_INCLUDE)
  set(problem "version 9 not found, own convolutions and attention serve; apt-get install libcudnn9-dev-cuda-${major} or pip install nvidia-cudnn-cu${major}, and FERRITE_CUDA_PREFIX says where")
endif()
ferrite_header_version(version "${FERRITE_CUDNN_INCLUDE}/cudnn_version.h" CUDNN_ MAJOR MINOR PATCHLEVEL)
ferrite_decide_cuda_library(CUDNN "${problem}" "${version}, ${where}")

ferrite_find_cuda_library(CUFFT HEADER cufft.h LIBRARY libcufft.so.12 libcufft.so.11 cufft WHEELS cufft cu${major})
set(problem "")
if(NOT FERRITE_CUFFT_INCLUDE)
  set(problem "not found, there are no Fourier transforms on GPUs; apt-get install libcufft-dev-${major}-${CUDAToolkit_VERSION_MINOR} or pip install nvidia-cufft, and FERRITE_CUDA_PREFIX says where")
endif()
ferrite_header_version(version "${FERRITE_CUFFT_INCLUDE}/cufft.h" CUFFT_VER_ MAJOR MINOR PATCH)
ferrite_decide_cuda_library(CUFFT "${problem}" "${version}, ${where}")

ferrite_find_cuda_library(NCCL HEADER nccl.h LIBRARY libnccl.so.2 nccl WHEELS nccl cu${major})
set(problem "")
ferrite_header_version(version "${FERRITE_NCCL_INCLUDE}/nccl.h" NCCL_ MAJOR MINOR PATCH)
if(NOT FERRITE_NCCL_INCLUDE)
  set(problem "not found, there are no nccl process groups; apt-get install libnccl-dev or pip install nvidia-nccl-cu${major}, and FERRITE_CUDA_PREFIX says where")
elseif(version VERSION_LESS 2.18)
  set(problem "${version} in ${FERRITE_NCCL_INCLUDE} is older than 2.18, there are no nccl process groups")
endif()
ferrite_decide_cuda_library(NCCL "${problem}" "${version}, ${where}")
