# Finds oneDNN by header and library: the package file that Debian ships with libdnnl-dev requires
# OpenCL development files and fails without them. Defines OneDNN::OneDNN.

find_path(OneDNN_INCLUDE_DIR dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

set(OneDNN_VERSION "")
foreach(header IN ITEMS oneapi/dnnl/dnnl_version.h dnnl_version.h)
  if(OneDNN_INCLUDE_DIR AND NOT OneDNN_VERSION AND EXISTS ${OneDNN_INCLUDE_DIR}/${header})
    file(STRINGS ${OneDNN_INCLUDE_DIR}/${header} lines
         REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    list(JOIN lines "." OneDNN_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
                                  VERSION_VAR OneDNN_VERSION)

if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES
    IMPORTED_LOCATION ${OneDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
