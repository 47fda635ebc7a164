#pragma once

#include <cuda_runtime.h>

// Reverses `n` numbers of device memory, at most 1024, by way of shared memory. Unless `waits`,
// threads read what others may not have written yet: the race that the test plants.
cudaError_t reverse(int* numbers, int n, bool waits, cudaStream_t stream);
