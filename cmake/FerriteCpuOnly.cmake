# cmake -DNM=<nm> -DLIBRARY=<libferrite_kernels.a> -DSOURCE=<cpu_only.cpp.in> -DOUTPUT=<cpu_only.cpp>
#       -P FerriteCpuOnly.cmake
#
# Makes cpu_only.cpp: every function of ferrite::kernels::cuda in the library becomes another name of
# ferrite_no_cuda_kernels.
execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE found ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_ZNK?7ferrite7kernels4cuda[A-Za-z0-9_]+ T " names "${found}")
list(TRANSFORM names REPLACE " T " "")
list(REMOVE_DUPLICATES names)
list(SORT names)
set(symbols)
foreach(name IN LISTS names)
  string(APPEND symbols "\".globl ${name}\\n.set ${name}, ferrite_no_cuda_kernels\\n\"\n")
endforeach()
configure_file(${SOURCE} ${OUTPUT} @ONLY)
file(TOUCH_NOCREATE ${OUTPUT})
