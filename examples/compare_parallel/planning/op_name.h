#pragma once

namespace ferrite::planning {

/// What errors name as where they come from.
inline constexpr const char* kOp = "planning";

}  // namespace ferrite::planning
