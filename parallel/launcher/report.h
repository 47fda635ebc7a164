// The launcher's reports of failures.
#pragma once

#include <string>

#include "ferrite/parallel/launcher/local_workers.h"
#include "ferrite/parallel/launcher/nodes.h"
#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// The first failure with the last lines of its stderr, and the outcome of the other ranks of this
/// node; several lines. `workers` may be null.
std::string failure_text(const RankReport& first, const LocalWorkers* workers, const Round& round);
/// "restart 1 of 3 in 0.8 s".
std::string restart_text(const Verdict& verdict, const Options& options);

}  // namespace ferrite::launcher
