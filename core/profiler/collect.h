// Turns the logs of threads into a recording.
#pragma once

#include <span>

#include "ferrite/core/profiler/recording.h"
#include "ferrite/core/profiler/records.h"

namespace ferrite::profiler::detail {

/// The recording of a stopped session; call it once. Includes the host's events only if `host`.
Recording collect(Session& session, bool host);

}  // namespace ferrite::profiler::detail
