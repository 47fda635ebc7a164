# cmake -D OUT=<file> -D ROOT=<tree> -D ALONE=<expression> -P FerriteTestBatch.cmake <source>...
#
# Writes a source that includes these tests, with paths relative to the tree: their headers are
# then compiled once per batch. Helpers of different tests may have the same name, so each test is
# put into a namespace of its own. To make that possible, everything they include is included
# first, so that their own includes have no effect. A test with a line that matches ALONE opens or
# fills a namespace itself, and cannot be wrapped.
set(sources)
foreach(i RANGE ${CMAKE_ARGC})
  if(after_script AND i LESS CMAKE_ARGC)
    list(APPEND sources ${CMAKE_ARGV${i}})
  elseif("${CMAKE_ARGV${i}}" STREQUAL "${CMAKE_CURRENT_LIST_FILE}")
    set(after_script ON)
  endif()
endforeach()

set(includes)
set(tests)
foreach(source IN LISTS sources)
  file(STRINGS ${ROOT}/${source} opens REGEX "${ALONE}")
  if(opens)
    message(FATAL_ERROR "${source} has \"${opens}\" now, and must be compiled by itself: configure anew")
  endif()
  file(STRINGS ${ROOT}/${source} found REGEX "^#include ")
  list(APPEND includes ${found})
  string(MAKE_C_IDENTIFIER ${source} name)
  string(APPEND tests "namespace ${name} {\n#include \"ferrite/${source}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${OUT} "${includes}\n${tests}")
