// Errors of queued work, for those who do not wait for it.
#pragma once

#include "ferrite/core/stream.h"

namespace ferrite::detail {

/// Throws what synchronize() would throw of what the stream has done so far, without waiting for
/// the rest: for who hands work to many devices and waits for one of them.
void throw_late_errors(const Stream& stream);

namespace cuda {
/// The same, of a CUDA stream.
void throw_late_errors(StreamImpl& stream);
}  // namespace cuda

}  // namespace ferrite::detail
