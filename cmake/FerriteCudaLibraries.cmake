# cuBLAS, cuDNN, NCCL and cuDNN's frontend headers, wherever they are: a prefix that the user names
# (FERRITE_CUDA_PREFIX), the toolkit, the distribution's packages, or Python wheels (nvidia-* in
# site-packages, as PyTorch brings them). Each is optional; the summary says what serves without it.

set(FERRITE_CUDA_PREFIX "" CACHE PATH
    "Where to look for cuDNN, NCCL and cudnn-frontend first: a folder with include/ and lib/")

# The site-packages folders of the python3 on the PATH.
function(ferrite_site_packages result)
  execute_process(
    COMMAND python3 -c "import site, sys
print(';'.join(p for p in site.getsitepackages() + [site.getusersitepackages()] + sys.path if p))"
    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed EQUAL 0)
    set(folders)
  endif()
  list(REMOVE_DUPLICATES folders)
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

# ferrite_cuda_library(<name> HEADER <file> LIBRARY <names...> WHEELS <folders in site-packages...>)
#
# Sets FERRITE_<name>_INCLUDE, FERRITE_<name>_LIBRARY (cached) and FERRITE_HAVE_<name>, and defines
# the target ferrite_<name>. A header without LIBRARY is a header-only library.
function(ferrite_cuda_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER" "LIBRARY;WHEELS")
  set(roots)
  foreach(site IN LISTS ferrite_sites)
    foreach(wheel IN LISTS arg_WHEELS)
      list(APPEND roots ${site}/${wheel})
    endforeach()
  endforeach()
  find_path(FERRITE_${name}_INCLUDE ${arg_HEADER}
            HINTS ${FERRITE_CUDA_PREFIX}/include ${CUDAToolkit_INCLUDE_DIRS}
            PATHS ${roots} PATH_SUFFIXES include)
  set(found ${FERRITE_${name}_INCLUDE})
  if(arg_LIBRARY)
    find_library(FERRITE_${name}_LIBRARY NAMES ${arg_LIBRARY}
                 HINTS ${FERRITE_CUDA_PREFIX}/lib ${FERRITE_CUDA_PREFIX}/lib64 ${CUDAToolkit_LIBRARY_DIR}
                 PATHS ${roots} PATH_SUFFIXES lib lib64)
    mark_as_advanced(FERRITE_${name}_LIBRARY)
    set(found ${FERRITE_${name}_LIBRARY})
  endif()
  mark_as_advanced(FERRITE_${name}_INCLUDE)
  if(NOT found OR NOT FERRITE_${name}_INCLUDE)
    set(FERRITE_HAVE_${name} OFF PARENT_SCOPE)
    return()
  endif()
  set(FERRITE_HAVE_${name} ON PARENT_SCOPE)
  if(arg_LIBRARY)
    add_library(ferrite_${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(ferrite_${name} PROPERTIES IMPORTED_LOCATION ${FERRITE_${name}_LIBRARY})
  else()
    add_library(ferrite_${name} INTERFACE IMPORTED GLOBAL)
  endif()
  if(NOT FERRITE_${name}_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_target_properties(ferrite_${name} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES ${FERRITE_${name}_INCLUDE})
  endif()
endfunction()

ferrite_site_packages(ferrite_sites)
ferrite_cuda_library(CUBLASLT HEADER cublasLt.h LIBRARY cublasLt libcublasLt.so.13 libcublasLt.so.12
                     WHEELS nvidia/cublas nvidia/cu13)
ferrite_cuda_library(CUDNN HEADER cudnn.h LIBRARY cudnn libcudnn.so.9
                     WHEELS nvidia/cudnn nvidia/cu13)
ferrite_cuda_library(NCCL HEADER nccl.h LIBRARY nccl libnccl.so.2 WHEELS nvidia/nccl nvidia/cu13)
ferrite_cuda_library(CUDNN_FRONTEND HEADER cudnn_frontend.h WHEELS . cudnn nvidia/cudnn_frontend)
