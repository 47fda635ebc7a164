# ferrite_levels(<target> <level>...)
#
# Builds the shared library <target> again for each instruction set level (x86-64-v3 ...), as the
# target <target>_<level> in glibc-hwcaps/<level>/ beside it. The C library's loader looks there
# first on machines that support the level (ld.so(8), "glibc-hwcaps"): programs start with the
# fastest supported library, and no code has to choose. Sources are those of <target>; objects of
# a GPU compiler are linked unchanged. Call it in the folder of <target> after its properties are
# set.
function(ferrite_levels target)
  if(NOT ARGN)
    return()
  endif()
  get_target_property(name ${target} OUTPUT_NAME)
  if(NOT name)
    set(name ${target})
  endif()
  set(libraries ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  if(NOT libraries)
    set(libraries ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  foreach(level IN LISTS ARGN)
    ferrite_level(${target} ${level} SHARED $<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,\\.cu\\.>)
    set_target_properties(${target}_${level} PROPERTIES
      OUTPUT_NAME ${name}
      INSTALL_RPATH "$ORIGIN/../.."
      INSTALL_RPATH_USE_LINK_PATH ON
      LIBRARY_OUTPUT_DIRECTORY ${libraries}/glibc-hwcaps/${level})
  endforeach()
endfunction()

# ferrite_level(<target> <level> <kind> [<objects>])
#
# Creates the library <target>_<level>, SHARED or STATIC: the C++ sources of <target> compiled for
# that level, plus these objects if <target> has sources of another compiler.
function(ferrite_level target level kind)
  get_target_property(all ${target} SOURCES)
  set(sources)
  set(objects)
  foreach(source IN LISTS all)
    get_source_file_property(language ${source} LANGUAGE)
    if(NOT source MATCHES "\\.cu$")
      list(APPEND sources ${source})
    elseif(NOT language STREQUAL "CXX")
      set(objects ${ARGN})
    elseif(kind STREQUAL "SHARED")
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(copy ${target}_${level})
  add_library(${copy} ${kind} ${sources} ${objects})
  foreach(property IN ITEMS COMPILE_DEFINITIONS COMPILE_OPTIONS COMPILE_FEATURES INCLUDE_DIRECTORIES
               LINK_LIBRARIES VERSION SOVERSION)
    get_target_property(value ${target} ${property})
    if(value)
      set_target_properties(${copy} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
  target_compile_options(${copy} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=${level}>)
endfunction()
