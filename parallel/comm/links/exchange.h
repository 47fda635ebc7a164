// Exchange of data between the ranks of a group, through its store, while the group is created.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/backend.h"

namespace ferrite::parallel::links {

/// Called by all ranks of the group: returns the strings of all ranks, in rank order. `name` is
/// unique among the exchanges of the group. DistributedError, naming a rank, if one does not arrive
/// within the group's timeout, or as soon as the monitor knows that one is lost.
std::vector<std::string> exchange(const GroupContext& context, std::string_view name,
                                  const std::string& mine);

}  // namespace ferrite::parallel::links
