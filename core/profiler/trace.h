// Traces in Chrome's format, for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "ferrite/core/profiler/recording.h"

namespace ferrite::profiler {

/// Threads are rows of the process "host", and streams are rows of one process per device. Arrows
/// lead from ops to the device work they queued, and to their backward. Memory is a counter per
/// device. Times are microseconds since "baseTimeNanoseconds", which is equal for all processes
/// that run within some 100 days of each other, so that their traces can be merged.
void write_trace(const Recording& recording, std::ostream& out);
/// Error if the file cannot be written.
void write_trace(const Recording& recording, const std::string& file);
/// Merges the traces of several ranks into one file. ValueError if one was not written by
/// write_trace(), or two have the same rank.
void merge_traces(std::span<const std::string> files, const std::string& merged);

}  // namespace ferrite::profiler
