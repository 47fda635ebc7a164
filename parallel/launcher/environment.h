// The environment of workers.
#pragma once

#include <string>
#include <vector>

#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// The environment of this process plus the variables of torchrun and Ferrite, as "NAME=value".
std::vector<std::string> worker_environment(const Options& options, const Round& round,
                                            int local_rank);

}  // namespace ferrite::launcher
