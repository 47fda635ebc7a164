// Memory that several tensors share, though each counts its own changes.
#pragma once

#include "ferrite/core/storage.h"

namespace ferrite::detail {

/// A storage with the memory of `whole`, offsets included, and a version of its own: what changes a
/// tensor in one part does not invalidate what the tape saved of another. It keeps `whole`, which
/// learns of the streams that used the part when that goes.
IntrusivePtr<Storage> part_of(const IntrusivePtr<Storage>& whole);

}  // namespace ferrite::detail
