#include <ostream>

#include "ferrite/core/tensor.h"

namespace ferrite {

// Separate from tensor.cpp, so that a program which prints nothing links core alone.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.str(); }

}  // namespace ferrite
