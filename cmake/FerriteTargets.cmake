# ferrite_include_root(<folder>)
#
# Fills <folder>/ferrite with links to the folders of the source tree: sources of this tree
# include "ferrite/nn/module.h" like users of an installed Ferrite, and no folder name of the tree
# is on the include path.
function(ferrite_include_root folder)
  get_filename_component(root ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.. ABSOLUTE)
  foreach(name IN ITEMS core kernels autograd ops nn optim parallel data metrics examples
               benchmarks tests ferrite.h version.h)
    if(EXISTS ${root}/${name})
      file(MAKE_DIRECTORY ${folder}/ferrite)
      file(CREATE_LINK ${root}/${name} ${folder}/ferrite/${name} SYMBOLIC)
    endif()
  endforeach()
endfunction()

# ferrite_cuda_sources(<sources> <folders of headers>)
# Only sources of CUDA's folders see its headers: the others compile to the same objects, which a compiler
# cache has, with CUDA and for the emulator. So libraries link the runtime by $<LINK_ONLY:>.
function(ferrite_cuda_sources sources folders)
  list(FILTER sources INCLUDE REGEX "/(cuda|nccl|emulator)/")
  if(NOT FERRITE_HAVE_CUDA OR NOT sources)
    return()
  endif()
  list(PREPEND folders $<TARGET_PROPERTY:${FERRITE_CUDA_RUNTIME},INTERFACE_INCLUDE_DIRECTORIES>)
  set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS
    "$<$<COMPILE_LANGUAGE:CXX>:-isystem$<JOIN:${folders},;-isystem>>")
endfunction()

# ferrite_library(<folder> [FOLDERS <subfolder>...] [DEPENDS <target>...] [PRIVATE <target>...]
#                 [ALONE <source>...] [CUDA_INCLUDE <folder>...])
#
# Creates the library target ferrite_<folder> (alias ferrite::<folder>) from the sources in the
# calling folder: all below it, or, given FOLDERS, only those directly in the named subfolders
# ("." is the folder itself). Sources are globbed, so adding a file needs no edit; a folder with
# only headers becomes an interface target. DEPENDS are linked publicly; PRIVATE targets are for
# the .cpp files only, and no public header may include them. Sources are compiled in batches
# except those listed as ALONE (ferrite_batches below). CUDA_INCLUDE are folders of headers for the sources
# of CUDA's folders, beside those of its runtime. Compile options beyond the target's own
# must be set before this is called.
function(ferrite_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS;DEPENDS;PRIVATE;ALONE;CUDA_INCLUDE")
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
          ferrite_emulate_sources(${found})
        endif()
      endif()
    endforeach()
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()

  set(scope PUBLIC)
  if(sources)
    ferrite_cuda_sources("${sources}" "${arg_CUDA_INCLUDE}")
    ferrite_batches(sources ${target} ${arg_ALONE})
    add_library(${target} ${sources})  # static, or shared with BUILD_SHARED_LIBS
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
    set_target_properties(${target} PROPERTIES DEFINE_SYMBOL ""  # unused; headers must fit all
                                                                 # programs
      VERSION ${ferrite_VERSION} SOVERSION ${ferrite_abi})
    if(TARGET ferrite_core AND NOT target STREQUAL "ferrite_core")
      target_precompile_headers(${target} REUSE_FROM ferrite_core)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(ferrite::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}
    INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)  # CUDA's runtime is not in a system
                                                             # folder
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})
endfunction()

# ferrite_local_names(<source> <names> <aliases>)
# What a source declares in its unnamed namespaces: names, those of functions with the types of
# their parameters, since functions may share a name; and the aliases among them, as "A=int", which
# may be declared twice. A declaration begins at the start of a line, as clang-format leaves it.
function(ferrite_local_names source names_variable aliases_variable)
  file(READ ${source} text)
  string(ASCII 1 end)
  string(REPLACE "\n}  // namespace\n" "${end}" text "${text}")
  string(REGEX REPLACE "//[^\n${end}]*" "" text "${text}")
  string(REGEX REPLACE "(__launch_bounds__|alignas)\\([^)]*\\)\n? *" "" text "${text}")
  string(REPLACE ";" "," text "${text}")  # which, like brackets, means something in a list
  string(REPLACE "[" "=" text "${text}")
  string(REPLACE "]" "" text "${text}")
  string(REGEX MATCHALL "\nnamespace {\n[^${end}]*" blocks "${text}")
  set(names)
  set(aliases)
  foreach(block IN LISTS blocks)
    string(REGEX MATCHALL "\n[A-Za-z_][^\n(]*(\\([^)]*\\))?" declarations "${block}")
    foreach(line IN LISTS declarations)
      if(line MATCHES "^.(template|namespace|using namespace|static_assert|[A-Z_]+\\()")
        continue()  # a template's declaration is the next line
      elseif(line MATCHES "^.(struct|class|union|enum class|enum) ([A-Za-z0-9_]+)")
        list(APPEND names ${CMAKE_MATCH_2})
      elseif(line MATCHES "^.using ([A-Za-z0-9_]+) = (.*)$")
        list(APPEND names ${CMAKE_MATCH_1})
        list(APPEND aliases "${CMAKE_MATCH_1}=${CMAKE_MATCH_2}")
      elseif(line MATCHES "^.[^(={]*[ *&>]([A-Za-z0-9_]+)(\\([^)]*\\))")
        set(name ${CMAKE_MATCH_1})
        # The parameters without their names, which follow the types.
        string(REGEX REPLACE "[ \n]+" " " parameters "${CMAKE_MATCH_2}")
        string(REGEX REPLACE "([a-zA-Z0-9_>&*]) ([a-z0-9_]+)( = [^,)]*)?([,)])" "\\1\\4" parameters
               "${parameters}")
        list(APPEND names "${name}${parameters}")
      elseif(line MATCHES "^.[^(={]*[ *&>]([A-Za-z0-9_]+) *[={,]")
        list(APPEND names ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${names_variable} "${names}" PARENT_SCOPE)
  set(${aliases_variable} "${aliases}" PARENT_SCOPE)
endfunction()

# ferrite_common(<variable> <list> <list>): what two lists have in common.
function(ferrite_common variable a b)
  set(rest ${a})
  list(REMOVE_ITEM rest ${b} "")
  list(REMOVE_ITEM a ${rest} "")
  set(${variable} "${a}" PARENT_SCOPE)
endfunction()

# ferrite_batches(<variable> <target> [<pattern>...])
# Replaces a list of sources by files that include up to FERRITE_BATCH of them each (1: the
# sources as they are). Headers and templates, which take most of a small file's time, are then
# compiled once per batch; a batch takes some ten seconds, so a change still compiles quickly.
# Sources of a batch have the same folder, language and source-specific options. Their unnamed
# namespaces are merged, so sources that declare the same name there go into different batches
# (ferrite_local_names): after giving a source a name that another one of its batch has, configure
# again. Sources that take long by themselves, or that clash with others in another way, are
# compiled alone: those whose path ends in one of the patterns. Sources with the same value of the
# property FERRITE_BATCH form one batch, however many they are.
function(ferrite_batches variable target)
  if(FERRITE_BATCH LESS 2)
    return()
  endif()
  list(JOIN ARGN "|" alone)
  set(result)
  set(keys)
  foreach(source IN LISTS ${variable})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
    if(alone AND path MATCHES "(^|/)(${alone})$")
      list(APPEND result ${source})
      continue()
    endif()
    set(key)
    cmake_path(GET path PARENT_PATH folder)
    cmake_path(GET path EXTENSION LAST_ONLY extension)
    foreach(property IN ITEMS LANGUAGE COMPILE_DEFINITIONS COMPILE_OPTIONS SKIP_PRECOMPILE_HEADERS)
      get_source_file_property(${property} ${source} ${property})
      string(APPEND key "${property}=${${property}} ")
    endforeach()
    get_source_file_property(batch ${source} FERRITE_BATCH)
    string(APPEND key ${batch})
    string(MD5 key "${folder} ${extension} ${key}")
    if(NOT key IN_LIST keys)
      list(APPEND keys ${key})
      string(REPLACE "/" "_" name_${key} "${folder}")
      set(extension_${key} ${extension})
      set(batch_${key} ${batch})
      foreach(property IN ITEMS LANGUAGE COMPILE_DEFINITIONS COMPILE_OPTIONS SKIP_PRECOMPILE_HEADERS)
        set(${property}_${key} ${${property}})
      endforeach()
    endif()
    list(APPEND sources_${key} ${path})
  endforeach()

  foreach(key IN LISTS keys)
    list(LENGTH sources_${key} count)
    if(count EQUAL 1)
      list(APPEND result ${PROJECT_SOURCE_DIR}/${sources_${key}})
      continue()
    endif()
    math(EXPR batches "(${count} + ${FERRITE_BATCH} - 1) / ${FERRITE_BATCH}")
    math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
    if(batch_${key})
      set(size ${count})
    endif()
    # Each source goes into the first batch that has room and none of its local names.
    set(last 0)
    foreach(source IN LISTS sources_${key})
      ferrite_local_names(${PROJECT_SOURCE_DIR}/${source} names aliases)
      foreach(i RANGE 1 ${count})
        list(LENGTH members_${key}_${i} members)
        ferrite_common(clash "${names}" "${names_${key}_${i}}")
        ferrite_common(same "${aliases}" "${aliases_${key}_${i}}")
        list(TRANSFORM same REPLACE "=.*" "")
        list(REMOVE_ITEM clash ${same} "")
        if(members LESS size AND NOT clash)
          set(into ${i})
          break()
        endif()
      endforeach()
      list(APPEND members_${key}_${into} ${source})
      list(APPEND names_${key}_${into} ${names})
      list(APPEND aliases_${key}_${into} ${aliases})
      if(into GREATER last)
        set(last ${into})
      endif()
    endforeach()
    foreach(i RANGE 1 ${last})
      set(batch ${members_${key}_${i}})
      list(TRANSFORM batch REPLACE "(.+)" "#include \"ferrite/\\1\"\n")
      list(JOIN batch "" text)
      set(name ${name_${key}}${extension_${key}})
      math(EXPR number_${name} "0${number_${name}} + 1")
      set(file ${CMAKE_CURRENT_BINARY_DIR}/batches/${target}/${number_${name}}_${name})
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # written only if it has changed
      foreach(property IN ITEMS LANGUAGE COMPILE_DEFINITIONS COMPILE_OPTIONS SKIP_PRECOMPILE_HEADERS)
        if(NOT "${${property}_${key}}" MATCHES "NOTFOUND$")
          set_source_files_properties(${file} PROPERTIES ${property} "${${property}_${key}}")
        endif()
      endforeach()
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
         AND (extension_${key} STREQUAL ".cpp" OR LANGUAGE_${key} STREQUAL "CXX"))
        # GCC treats the batch as the source, and its parts as headers.
        set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -Wno-subobject-linkage)
      endif()
      list(APPEND result ${file})
    endforeach()
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()
