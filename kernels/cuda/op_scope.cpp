#include "kernels/cuda/op_scope.h"

#include "core/cuda/runtime.h"

namespace ferrite::kernels::cuda {

OpScope::OpScope(const Stream& stream, const char* op) : range_(op) {
  int current = 0;
  FERRITE_CUDA_CHECK(cudaGetDevice(&current));
  if (current == stream.device().index()) return;
  previous_device_ = current;
  FERRITE_CUDA_CHECK(cudaSetDevice(stream.device().index()));
}

OpScope::~OpScope() {
  if (previous_device_ >= 0) cudaSetDevice(previous_device_);
}

}  // namespace ferrite::kernels::cuda
