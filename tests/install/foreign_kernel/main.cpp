// test_reverse [race]: exits with 1 where the result is wrong, and as the emulator says where it
// finds a bug.
#include <cstdio>
#include <vector>

#include "reverse.h"

int main(int argc, char**) {
  constexpr int n = 256;
  std::vector<int> numbers(n);
  for (int i = 0; i < n; ++i) numbers[i] = i;
  int* device = nullptr;
  if (cudaMalloc(&device, n * sizeof(int)) != cudaSuccess) return 2;
  cudaMemcpy(device, numbers.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  const bool waits = argc < 2;
  if (reverse(device, n, waits, nullptr) != cudaSuccess) return 2;
  cudaMemcpy(numbers.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(device);
  for (int i = 0; i < n && waits; ++i)
    if (numbers[i] != n - 1 - i) return 1;
  std::puts("reversed");
}
