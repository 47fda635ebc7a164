// For headers that only name these.
#pragma once

namespace ferrite {
class Allocator;
class Stream;
class Tensor;
}  // namespace ferrite
