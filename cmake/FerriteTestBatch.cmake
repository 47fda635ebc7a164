# cmake -D OUT=<file> -D ROOT=<tree> -P FerriteTestBatch.cmake <source>...
#
# Writes a source that includes these tests, paths relative to the tree: what their headers have is then
# compiled once a batch. Their helpers have names like other tests' helpers, so each lies in a namespace of
# its own; for that all that they include comes first, where their own includes find nothing left to do.
# Tests that open the namespace ferrite, or specialise what lies in it, stay outside, at the end.
set(sources)
foreach(i RANGE ${CMAKE_ARGC})
  if(after_script AND i LESS CMAKE_ARGC)
    list(APPEND sources ${CMAKE_ARGV${i}})
  elseif("${CMAKE_ARGV${i}}" STREQUAL "${CMAKE_CURRENT_LIST_FILE}")
    set(after_script ON)
  endif()
endforeach()

set(includes)
set(wrapped)
set(plain)
foreach(source IN LISTS sources)
  file(STRINGS ${ROOT}/${source} found REGEX "^#include ")
  list(APPEND includes ${found})
  file(STRINGS ${ROOT}/${source} opens REGEX "^(namespace ferrite|template <>)")
  if(opens)
    string(APPEND plain "#include \"${source}\"\n")
  else()
    string(MAKE_C_IDENTIFIER ${source} name)
    string(APPEND wrapped "namespace ${name} {\n#include \"${source}\"\n}\n")
  endif()
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${OUT} "${includes}\n${wrapped}${plain}")
