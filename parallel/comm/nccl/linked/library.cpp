#include "ferrite/parallel/comm/nccl/library.h"

namespace ferrite::parallel::nccl {

Found find_library() {
  Found found;
#define FERRITE_NCCL_TAKE(member, name) found.functions.member = &::name;
  FERRITE_NCCL_FUNCTIONS(FERRITE_NCCL_TAKE)
#undef FERRITE_NCCL_TAKE
  found.joins_processes = false;
  return found;
}

}  // namespace ferrite::parallel::nccl
