// The CUDA side of core/device.h for builds without CUDA.
#include "core/device.h"

namespace ferrite::cuda {

bool is_available() { return false; }
int device_count() { return 0; }

}  // namespace ferrite::cuda
