// How the ranks of a group agree on a communicator: each rank's GPU, and NCCL's id.
#pragma once

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/nccl/communicator.h"

namespace ferrite::parallel::nccl {

/// The rank's device: the configured one, else the only visible one, else cuda:LOCAL_RANK.
/// DeviceError if it does not exist.
Device choose_device(const GroupContext& context);

/// The id shared by all ranks, once each has published its GPU in the store. DistributedError on
/// all ranks if one does not arrive, or two have the same GPU, which NCCL refuses unless they
/// appear as different hosts (NCCL_HOSTID).
ncclUniqueId agree_on_communicator(const GroupContext& context, const Library& library,
                                   const Device& device, Deadline deadline);

}  // namespace ferrite::parallel::nccl
