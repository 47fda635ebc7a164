#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/vendor/cufft.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite {

bool cufft::is_available() { return false; }
std::string cufft::version() { return ""; }

void kernels::cuda::vendor::fft(const Stream&, const FftProblem&, bool, void*, void*) {
  fail<CudaError>(
      "fft",
      "this build has no cuFFT, which transforms on CUDA devices need (cmake says why); "
      "move the tensor with cpu()");
}

}  // namespace ferrite
