// In the place of kernels_cuda.cu where Ferrite has no CUDA: there are no such devices then.
#include "ferrite/core/error.h"
#include "kernels.h"

namespace swiglu::cuda {

void forward(const Stream& stream, const View&, const View&, const View&) {
  ferrite::fail<ferrite::DeviceError>("swiglu", "was built without CUDA, got {}", stream.device());
}
void backward(const Stream& stream, const View&, const View&, const View&, const View&,
              const View&) {
  ferrite::fail<ferrite::DeviceError>("swiglu", "was built without CUDA, got {}", stream.device());
}

}  // namespace swiglu::cuda
