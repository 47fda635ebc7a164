// From the logs of threads to a recording.
#pragma once

#include <span>

#include "ferrite/core/profiler/recording.h"
#include "ferrite/core/profiler/records.h"

namespace ferrite::profiler::detail {

/// What a session that was stopped has recorded, once; the host's events only where `host`.
Recording collect(Session& session, bool host);

}  // namespace ferrite::profiler::detail
