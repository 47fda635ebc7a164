// How the ranks of a group agree on a communicator: which GPU each has, and NCCL's id.
#pragma once

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/nccl/communicator.h"

namespace ferrite::parallel::nccl {

/// The rank's device: the one it was told, else the only one that is visible, else cuda:LOCAL_RANK.
/// DeviceError where there is none such.
Device choose_device(const GroupContext& context);

/// The id that all ranks share, once each has said in the store which GPU it has. DistributedError
/// on all ranks where one does not come, or two have the same GPU, which NCCL refuses unless they
/// pass for different hosts (NCCL_HOSTID).
ncclUniqueId meet(const GroupContext& context, const Library& library, const Device& device,
                  Deadline deadline);

}  // namespace ferrite::parallel::nccl
