// The nccl backends of a build without NCCL.
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/clique.h"

namespace ferrite::parallel {

std::shared_ptr<ProcessGroup> make_nccl_group(const GroupContext&) {
  fail("init_process_group",
       "this Ferrite was built without NCCL. Install it (apt-get install libnccl-dev, or pip "
       "install nvidia-nccl-cu13; headers are enough to build), configure again, where it is in no "
       "usual place with -DFERRITE_CUDA_PREFIX=<its folder>, and see what the summary at the end "
       "says of NCCL; or use the backend \"gloo\"");
}

bool has_nccl() { return false; }

std::shared_ptr<comm::Clique> comm::make_nccl_clique(std::span<const Device>) {
  fail("device_comm",
       "this Ferrite was built without NCCL. Install it (apt-get install libnccl-dev, or pip "
       "install nvidia-nccl-cu13; headers are enough to build), configure again, and see what the "
       "summary at the end says of NCCL; or use the backend \"copies\"");
}

bool comm::has_nccl_clique() { return false; }

}  // namespace ferrite::parallel
