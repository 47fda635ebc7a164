#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"

namespace ferrite::parallel {

std::shared_ptr<ProcessGroup> make_nccl_group(const GroupContext&) {
  fail("init_process_group",
       "this Ferrite was built without NCCL. Install it (apt-get install libnccl-dev, or pip "
       "install nvidia-nccl-cu13; headers are enough to build), configure again, where it is in no "
       "usual place with -DFERRITE_CUDA_PREFIX=<its folder>, and see what the summary at the end "
       "says of NCCL; or use the backend \"gloo\"");
}

bool has_nccl() { return false; }

}  // namespace ferrite::parallel
