# External packages. A missing one is an error that says what to install.

# Searched last: the packages gathered by scripts/gather_packages.sh.
set(FERRITE_PREFIX ${PROJECT_SOURCE_DIR}/third_party/gathered CACHE PATH
    "A folder of headers and libraries for what is found nowhere else")
list(APPEND CMAKE_SYSTEM_PREFIX_PATH ${FERRITE_PREFIX})

# ferrite_require(<package> <debian package> [find_package arguments...])
macro(ferrite_require package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "Ferrite needs ${package}, which was not found. "
                        "On Debian or Ubuntu: apt-get install ${debian}")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
ferrite_require(Threads libc6-dev)
ferrite_require(fmt libfmt-dev CONFIG)
# No version here: to Eigen's package file 3.4 means 3.4.x alone, and the version after it is 5.0.
ferrite_require(Eigen3 libeigen3-dev CONFIG)
if(Eigen3_VERSION VERSION_LESS 3.4)
  message(FATAL_ERROR "Ferrite needs Eigen 3.4 or later, and found ${Eigen3_VERSION} in ${Eigen3_DIR}")
endif()
ferrite_require(Pocketfft gemmi-dev MODULE)
ferrite_require(ZLIB zlib1g-dev)
ferrite_require(Deflate libdeflate-dev MODULE)
ferrite_require(PNG libpng-dev)
ferrite_require(JPEG libjpeg62-turbo-dev)
ferrite_require(nlohmann_json nlohmann-json3-dev CONFIG)
ferrite_require(OpenSSL libssl-dev 3.0 COMPONENTS Crypto)
if(FERRITE_EXAMPLES OR FERRITE_BENCHMARKS)
  ferrite_require(CLI11 libcli11-dev CONFIG)
endif()
if(FERRITE_TESTS)
  ferrite_require(doctest doctest-dev CONFIG)
endif()

# Gloo: process groups of the CPU.
set(FERRITE_HAVE_GLOO OFF)
if(FERRITE_GLOO STREQUAL "OFF")
  set(ferrite_gloo_reason "FERRITE_GLOO=OFF")
else()
  find_package(Gloo CONFIG QUIET)
  if(TARGET gloo)
    set(FERRITE_HAVE_GLOO ON)
    set(ferrite_gloo_reason "${Gloo_DIR}")
  elseif(FERRITE_GLOO STREQUAL "ON")
    message(FATAL_ERROR "FERRITE_GLOO=ON, but Gloo was not found. "
                        "On Debian or Ubuntu: apt-get install libgloo-dev")
  else()
    set(ferrite_gloo_reason "not found")
  endif()
endif()

# HDF5: the component hdf5.
set(FERRITE_HAVE_HDF5 OFF)
if(FERRITE_HDF5 STREQUAL "OFF")
  set(ferrite_hdf5_reason "FERRITE_HDF5=OFF")
else()
  find_package(HDF5C MODULE QUIET)
  if(HDF5C_FOUND)
    set(FERRITE_HAVE_HDF5 ON)
    set(ferrite_hdf5_reason "${HDF5C_LIBRARY}")
  elseif(FERRITE_HDF5 STREQUAL "ON")
    message(FATAL_ERROR "FERRITE_HDF5=ON, but HDF5 was not found. "
                        "On Debian or Ubuntu: apt-get install libhdf5-dev")
  else()
    set(ferrite_hdf5_reason "not found")
  endif()
endif()

# ONNX's description of models and protobuf: the component onnx.
set(FERRITE_HAVE_ONNX OFF)
if(FERRITE_ONNX STREQUAL "OFF")
  set(ferrite_onnx_reason "FERRITE_ONNX=OFF")
else()
  find_package(ONNXProto MODULE QUIET)
  if(ONNXProto_FOUND)
    set(FERRITE_HAVE_ONNX ON)
    set(ferrite_onnx_reason "${ONNXProto_LIBRARY}")
  elseif(FERRITE_ONNX STREQUAL "ON")
    message(FATAL_ERROR "FERRITE_ONNX=ON, but ONNX's protobuf description was not found. "
                        "On Debian or Ubuntu: apt-get install libonnx-dev libprotobuf-dev")
  else()
    set(ferrite_onnx_reason "not found")
  endif()
endif()

include(FerriteCuda)
include(FerriteCudaLibraries)
