# Finds pocketfft, a library of one header, whose path is Pocketfft_HEADER. Debian and Ubuntu have it
# in the package gemmi-dev, among the headers of a library that uses it.

find_path(Pocketfft_FOLDER NAMES pocketfft_hdronly.h pocketfft_hdronly.hpp
          PATH_SUFFIXES pocketfft gemmi/third_party)
mark_as_advanced(Pocketfft_FOLDER)
foreach(ending IN ITEMS h hpp)
  if(EXISTS "${Pocketfft_FOLDER}/pocketfft_hdronly.${ending}")
    set(Pocketfft_HEADER ${Pocketfft_FOLDER}/pocketfft_hdronly.${ending})
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pocketfft REQUIRED_VARS Pocketfft_HEADER)
