#include "ferrite/kernels/cuda/op_scope.h"

#include "ferrite/core/cuda/context.h"

namespace ferrite::kernels::cuda {

OpScope::OpScope(const Stream& stream, const char* op) : range_(op) {
  const int device = stream.device().index();
  const int previous = ferrite::cuda::detail::set_device(device);
  if (previous != device) previous_device_ = previous;
}

OpScope::~OpScope() {
  if (previous_device_ >= 0) ferrite::cuda::detail::restore_device(previous_device_);
}

}  // namespace ferrite::kernels::cuda
