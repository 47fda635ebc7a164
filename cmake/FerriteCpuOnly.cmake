# cmake -DNM=<nm> -DLIBRARY=<libferrite_kernels.a> -DOUTPUT=<file> -P FerriteCpuOnly.cmake
#
# Writes, as strings of assembly, another name of ferrite_no_cuda_kernels for every function of
# ferrite::kernels::cuda in the library (kernels/cuda/cpu_only/cpu_only.cpp).
execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_ZNK?7ferrite7kernels4cuda[A-Za-z0-9_]+ T " names "${symbols}")
list(TRANSFORM names REPLACE " T " "")
list(REMOVE_DUPLICATES names)
list(SORT names)
set(text)
foreach(name IN LISTS names)
  string(APPEND text "\".globl ${name}\\n.set ${name}, ferrite_no_cuda_kernels\\n\"\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
file(TOUCH_NOCREATE ${OUTPUT})
