// Sorting by key, for kernels that group elements by destination.
#pragma once

#include <cstdint>

#include "ferrite/core/fwd.h"

namespace ferrite::kernels::cuda {

/// Two arrays on the device.
struct KeyValues {
  std::uint64_t* keys;
  std::int64_t* values;
};

/// Sorts `count` pairs by their keys, all below 2^bits, and keeps the order of equal keys. The
/// result is in `pairs` or in `scratch`, whichever is returned; both are written to.
KeyValues sort_pairs(const Stream& stream, const KeyValues& pairs, const KeyValues& scratch,
                     std::int64_t count, int bits);

}  // namespace ferrite::kernels::cuda
