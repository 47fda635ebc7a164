// Whether the ranks of a group have the same thing before they train together.
#pragma once

#include <string>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::ddp {

/// One line of what must agree, `what` as messages call it: {"parameter 3", "'fc.weight',
/// float32[10, 84]"}.
struct Property {
  std::string what, value;
};

/// Parameters and buffers, as lines.
std::vector<Property> describe_model(const nn::Module& module);

/// Where tensors that the host gives to collectives of `group` must be.
inline Device exchange_device(const ProcessGroup& group) {
  return group.device().value_or(Device());
}

/// To be called by all ranks: DistributedError on all of them, naming those that differ from rank 0
/// and the first difference.
void check_agreement(ProcessGroup& group, const std::vector<Property>& properties);

/// Every rank's `values`, which are as many on all ranks; rank after rank. Waits in the host.
std::vector<std::int64_t> gather_numbers(ProcessGroup& group,
                                         const std::vector<std::int64_t>& values);

}  // namespace ferrite::parallel::ddp
