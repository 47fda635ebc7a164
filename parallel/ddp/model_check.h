// Checks that the ranks of a group agree before they train together.
#pragma once

#include <string>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::ddp {

/// One property that must agree, with its name for messages: {"parameter 3", "'fc.weight',
/// float32[10, 84]"}.
struct Property {
  std::string what, value;
};

/// Parameters and buffers, as properties.
std::vector<Property> describe_model(const nn::Module& module);

/// The device for tensors passed from the host to collectives of `group`.
inline Device exchange_device(const ProcessGroup& group) {
  return group.device().value_or(Device());
}

/// Called by all ranks: DistributedError on all of them, naming those that differ from rank 0 and
/// the first difference.
void check_agreement(ProcessGroup& group, const std::vector<Property>& properties);

/// Whether a batch norm of `module` is synchronized over `group`.
bool synchronizes_norms_over(const ProcessGroup& group, nn::Module& module);

/// Every rank's `values`, the same number on all ranks, in rank order. Blocks the host.
std::vector<std::int64_t> gather_numbers(ProcessGroup& group,
                                         const std::vector<std::int64_t>& values);

}  // namespace ferrite::parallel::ddp
