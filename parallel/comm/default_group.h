// Where the process's default group is kept, for init_process_group().
#pragma once

#include <memory>

#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::parallel::comm {

/// Puts `group`, which may be null, in the place of the process's default group, which it returns.
std::shared_ptr<ProcessGroup> exchange_process_group(std::shared_ptr<ProcessGroup> group);

}  // namespace ferrite::parallel::comm
