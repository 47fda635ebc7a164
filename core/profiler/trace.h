// Traces of Chrome's format: what ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "ferrite/core/profiler/recording.h"

namespace ferrite::profiler {

/// Threads are rows of the process "host", streams of a process a device; arrows lead from ops to
/// the work they asked devices for, and from ops to their backward; memory is a counter a device.
/// Times are microseconds since "baseTimeNanoseconds", the same for all that run within some 100
/// days, so that traces of several processes can be merged.
void write_trace(const Recording& recording, std::ostream& out);
/// Error where the file cannot be written.
void write_trace(const Recording& recording, const std::string& file);
/// Puts the traces of several ranks into one file. ValueError where one is no trace that
/// write_trace() wrote, or two are of the same rank.
void merge_traces(std::span<const std::string> files, const std::string& merged);

}  // namespace ferrite::profiler
