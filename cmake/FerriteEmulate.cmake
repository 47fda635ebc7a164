# ferrite_emulate(<target> [RACE] <source.cu>...)
#
# Makes <target>, a library of CUDA sources that the host's compiler compiles for the emulator
# (tests/emulator/README.md): their kernels run on the CPU, on devices that exist on any machine.
# With RACE they are compiled and linked for its race detector. Programs that link the target run on the
# emulator, and must not link CUDA's own runtime.
function(ferrite_emulate target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RACE" "" "")
  set(emulator ferrite::emulator)
  if(arg_RACE)
    set(emulator ferrite::emulator_race)
  endif()
  if(NOT TARGET ${emulator})
    message(FATAL_ERROR "${emulator} was not found: find_package(ferrite COMPONENTS kernel_test) gives it where "
                        "Ferrite's target kernel_test was built with the CUDA toolkit's headers")
  endif()
  add_library(${target} STATIC ${arg_UNPARSED_ARGUMENTS})
  set_source_files_properties(${arg_UNPARSED_ARGUMENTS} PROPERTIES LANGUAGE CXX)
  target_compile_options(${target} PRIVATE -xc++ -Wno-unknown-pragmas)
  if(arg_RACE)
    # Volatile accesses are not data races on a GPU; -g1 gives reports their lines.
    target_compile_options(${target} PRIVATE -fsanitize=thread --param=tsan-distinguish-volatile=1 -g1)
  endif()
  target_link_libraries(${target} PUBLIC ${emulator})
endfunction()
