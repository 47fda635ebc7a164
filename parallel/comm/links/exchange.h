// What the ranks of a group tell each other, through its store, while it is made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/backend.h"

namespace ferrite::parallel::links {

/// By all ranks of the group together: what each of them says, rank by rank. `name` is of no other
/// exchange of the group. DistributedError, naming a rank, where one does not come within the
/// group's timeout, or as soon as the monitor knows that one is lost.
std::vector<std::string> exchange(const GroupContext& context, std::string_view name,
                                  const std::string& mine);

}  // namespace ferrite::parallel::links
