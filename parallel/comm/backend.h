// What a backend of process groups is made from, and the backends there are.
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
  std::string name;  ///< the same on all ranks, of no other group of the job
  int rank = 0, size = 1;
  std::vector<int> job_ranks;  ///< the rank in the job of each rank: what errors call it
  Milliseconds timeout{};
  std::shared_ptr<Store> store;                 ///< whose keys are this group's alone
  std::shared_ptr<bootstrap::Monitor> monitor;  ///< of the job
  std::optional<Device> device;                 ///< InitOptions::device
};

/// Of the group of some of a group's ranks, of which this process is number `rank`.
GroupContext context_of_some(const GroupContext& all, const std::vector<int>& ranks, int rank,
                             const std::string& name, Milliseconds timeout);

/// Error where the library was not built with Gloo, or with NCCL.
std::shared_ptr<ProcessGroup> make_gloo_group(const GroupContext& context);
std::shared_ptr<ProcessGroup> make_nccl_group(const GroupContext& context);
bool has_gloo();
bool has_nccl();  ///< and can join processes by it, which the emulator's cannot

}  // namespace ferrite::parallel
