// Errors of queued work, without waiting for that work.
#pragma once

#include "ferrite/core/stream.h"

namespace ferrite::detail {

/// Throws what synchronize() would throw for the work the stream has done so far, without waiting
/// for the rest. For code that hands work to many devices and waits for only one of them.
void throw_late_errors(const Stream& stream);

namespace cuda {
/// The same for a CUDA stream.
void throw_late_errors(StreamImpl& stream);
}  // namespace cuda

}  // namespace ferrite::detail
