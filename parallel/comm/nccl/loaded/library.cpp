#include "ferrite/parallel/comm/nccl/library.h"

#include "ferrite/core/cuda/shared_library.h"

namespace ferrite::parallel::nccl {

Found find_library() {
  // Never closed: its threads may run until the process ends.
  auto& library = *new cuda::SharedLibrary(FERRITE_NCCL_FOLDER, "libnccl.so.2");
  Found found;
#define FERRITE_NCCL_FIND(member, name) library.find(found.functions.member, #name);
  FERRITE_NCCL_FUNCTIONS(FERRITE_NCCL_FIND)
#undef FERRITE_NCCL_FIND
  found.why_not = library.why_not();
  return found;
}

}  // namespace ferrite::parallel::nccl
