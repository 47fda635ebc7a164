// Prints what Ferrite finds on this machine: versions, CUDA devices and their memory, CPU threads.
// Include the output in bug reports.
#include <ferrite/ferrite.h>

#include <iostream>

int main() {
  using namespace ferrite;
  std::cout << cuda::describe() << "cpu  " << num_threads() << " threads\n";
  for (int i = 0; i < cuda::device_count(); ++i) {
    const Device device(DeviceType::cuda, i);
    std::cout << memory_summary(device);
  }
}
