// Memory shared by several tensors with separate version counters.
#pragma once

#include "ferrite/core/storage.h"

namespace ferrite::detail {

/// A storage with the memory of `whole`, offsets included, and a version of its own: in-place
/// changes of a tensor in one part do not invalidate what the tape saved of another. It keeps
/// `whole` alive, and on destruction passes on to it the streams that used the part.
IntrusivePtr<Storage> part_of(const IntrusivePtr<Storage>& whole);

}  // namespace ferrite::detail
