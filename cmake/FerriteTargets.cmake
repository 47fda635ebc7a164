# ferrite_library(<folder> [FOLDERS <subfolder>...] [DEPENDS <target>...] [PRIVATE <target>...]
#                 [ALONE <source>... | LARGE])
#
# Makes the library target ferrite_<folder> (alias ferrite::<folder>) of the sources in the calling
# folder: all below it, or, given FOLDERS, only those directly in the subfolders named ("." is the
# folder itself). Sources are globbed, so adding a file needs no edit; a folder that has only
# headers becomes an interface target. DEPENDS are linked publicly; PRIVATE ones are for the .cpp
# files alone, and no public header may include them.
function(ferrite_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LARGE" "" "FOLDERS;DEPENDS;PRIVATE;ALONE")
  set(target ferrite_${name})
  if(arg_FOLDERS)
    set(sources)
    foreach(folder IN LISTS arg_FOLDERS)
      file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
      list(APPEND sources ${found})
      if(FERRITE_HAVE_CUDA)
        file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu)
        list(APPEND sources ${found})
        if(FERRITE_CUDA_EMULATOR)
          ferrite_emulate(${found})
        endif()
      endif()
    endforeach()
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()

  set(scope PUBLIC)
  if(sources)
    add_library(${target} ${sources})  # static, or as BUILD_SHARED_LIBS says
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
    if(NOT arg_LARGE)  # else what its files instantiate takes most of their time
      ferrite_batch(${target} ${arg_ALONE})
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(ferrite::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})
endfunction()

# ferrite_batch(<target> [<source>...])
# Has a target's sources compiled in batches where the build asks for it: headers and templates, which
# are most of a small file's time, are then compiled once a batch. Files of a folder may so meet in
# one, where their anonymous namespaces are the same: those that use each other's names, given here,
# stay alone, and so do those that have options of their own.
function(ferrite_batch target)
  if(FERRITE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # GCC takes the batch for the source, and its parts for headers.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
