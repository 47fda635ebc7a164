# Compiler flags of everything in this tree. They are directory options, so that all targets
# agree, and none of them reaches the users of an installed Ferrite.

function(ferrite_cxx_options)
  foreach(option IN LISTS ARGN)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()

ferrite_cxx_options(-Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wno-missing-field-initializers -Wno-psabi)
if(FERRITE_WERROR)
  ferrite_cxx_options(-Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Flow analyses that report false positives in inlined standard library and Eigen code.
    ferrite_cxx_options(-Wno-error=maybe-uninitialized -Wno-error=array-bounds
                        -Wno-error=stringop-overflow -Wno-error=stringop-overread
                        -Wno-error=restrict -Wno-error=free-nonheap-object)
  endif()
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  ferrite_cxx_options(-Wno-unknown-pragmas -Wno-unknown-attributes)  # GCC's, which it does not need
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  ferrite_cxx_options(-fpch-preprocess)  # for compiler caches, which preprocess first
  # GCC collects garbage from 128 MiB on, which takes a tenth of the time of a build. Where each
  # processor has 2 GiB it may use more first.
  cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR memory "${memory} / ${processors}")
  if(memory GREATER_EQUAL 2000)
    ferrite_cxx_options(--param=ggc-min-heapsize=1048576)
  endif()
endif()

# The tests are many large programs: mold links test_ops in 0.2 s, the system's linker in 0.7 s.
find_program(FERRITE_MOLD mold)
mark_as_advanced(FERRITE_MOLD)
if(FERRITE_MOLD AND PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()

# No -ffast-math: a loss scaler detects overflows by NaN and infinity.
ferrite_cxx_options(-fno-math-errno)

execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=${FERRITE_ISA} -dM -E -x c++ /dev/null
                OUTPUT_VARIABLE isa_macros ERROR_VARIABLE isa_error RESULT_VARIABLE isa_failed)
if(isa_failed)
  message(FATAL_ERROR "FERRITE_ISA is \"${FERRITE_ISA}\", which ${CMAKE_CXX_COMPILER} does not take for "
                      "-march=:\n${isa_error}")
endif()
ferrite_cxx_options(-march=${FERRITE_ISA})
if(FERRITE_ISA STREQUAL "native")
  # A compiler cache keys on the command line, where "native" is the same text on every machine.
  string(MD5 native_id "${isa_macros}")
  string(SUBSTRING ${native_id} 0 8 native_id)
  ferrite_cxx_options(-DFERRITE_NATIVE_ISA_${native_id})
endif()
set(found)
foreach(feature IN ITEMS SSE4_2 AVX AVX2 FMA AVX512F AVX512BF16 ARM_NEON ARM_FEATURE_SVE)
  if(isa_macros MATCHES "#define __${feature}(__)? ")
    list(APPEND found ${feature})
  endif()
endforeach()
list(JOIN found " " found)
set(ferrite_isa ${FERRITE_ISA})
if(found)
  string(APPEND ferrite_isa " (${found})")
endif()
if(FERRITE_ISA_LEVELS)
  list(JOIN FERRITE_ISA_LEVELS " " levels)
  string(APPEND ferrite_isa ", kernels for ${levels} too")
endif()

# For sources of the calling folder that mostly wait, or write reports: with -O1 they compile in
# three quarters of -O3's time.
function(ferrite_cold)
  file(GLOB cold CONFIGURE_DEPENDS ${ARGN})
  set_property(SOURCE ${cold} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()

# For the calling folder: compile fast, because it computes little. Undefined behaviour is checked
# in the library; in code that only uses it the checks would take a quarter of the time.
function(ferrite_unoptimized)
  ferrite_cxx_options(-O0)
  if(FERRITE_SANITIZE MATCHES "undefined")
    ferrite_cxx_options(-fno-sanitize=undefined)
  endif()
endfunction()

if(FERRITE_SANITIZE)
  ferrite_cxx_options(-fsanitize=${FERRITE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    ferrite_cxx_options(-Wno-maybe-uninitialized)
  elseif(FERRITE_SANITIZE MATCHES "address")
    ferrite_cxx_options(-D__SANITIZE_ADDRESS__=1)  # which GCC defines by itself
  endif()
  add_link_options(-fsanitize=${FERRITE_SANITIZE})
  if(FERRITE_SANITIZE MATCHES "undefined")
    # The address sanitizer finds the same errors, and these checks take a seventh of the build
    # time.
    ferrite_cxx_options(-fno-sanitize=null,object-size,pointer-overflow)
  endif()
endif()
