#include "ferrite/emulator/portable.h"
#include "reverse.h"

namespace {

__global__ void reverse_kernel(int* numbers, int n, bool waits) {
  EMULATOR_SHARED(tile, int[1024]);
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = numbers[i];
  if (waits) __syncthreads();
  numbers[i] = tile[n - 1 - i];
}

}  // namespace

cudaError_t reverse(int* numbers, int n, bool waits, cudaStream_t stream) {
  return EMULATOR_LAUNCH(reverse_kernel, 1, static_cast<unsigned>(n), 0, stream, numbers, n, waits);
}
