// The scale of an axis.
#pragma once

#include <cstdint>

namespace ferrite::metrics {

/// log: decades take equal space; only for values above 0.
enum class Scale : std::uint8_t { linear, log };

}  // namespace ferrite::metrics
