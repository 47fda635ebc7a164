// Forward declarations, for headers that only name these types.
#pragma once

namespace ferrite {
class Allocator;
class Stream;
class Tensor;
}  // namespace ferrite
