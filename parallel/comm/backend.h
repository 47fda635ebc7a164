// The inputs of a process group backend, and the available backends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/monitor.h"
#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel {

struct GroupContext {
  std::string name;  ///< the same on all ranks, unique in the job
  int rank = 0, size = 1;
  std::vector<int> job_ranks;  ///< each rank's rank in the job, used in errors
  Milliseconds timeout{};
  std::shared_ptr<Store> store;                 ///< a store with keys of this group only
  std::shared_ptr<bootstrap::Monitor> monitor;  ///< of the job
  std::optional<Device> device;                 ///< InitOptions::device

  /// The rank's rank in the job, for messages; its own number if that is not known.
  int job_rank(int of) const {
    const auto i = static_cast<std::size_t>(of);
    return i < job_ranks.size() ? job_ranks[i] : of;
  }
};

/// For a group of some of a group's ranks, in which this process is number `rank`.
GroupContext context_of_some(const GroupContext& all, const std::vector<int>& ranks, int rank,
                             const std::string& name, Milliseconds timeout);

/// Error if the library was not built with Gloo, or with NCCL.
std::shared_ptr<ProcessGroup> make_gloo_group(const GroupContext& context);
std::shared_ptr<ProcessGroup> make_nccl_group(const GroupContext& context);
bool has_gloo();
bool has_nccl();  ///< whether it can connect processes, which the emulator's NCCL cannot

}  // namespace ferrite::parallel
