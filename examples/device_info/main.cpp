// Prints what Ferrite finds on this machine: versions, CUDA devices and their memory, CPU threads.
// Include the output in bug reports.
#include <ferrite/ferrite.h>

#include <iostream>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/training_options.h"

namespace {

using namespace ferrite;

int device_info(int argc, char** argv) {
  examples::CommandLine app("Prints the devices and libraries that Ferrite finds on this machine.",
                            {"device_info"});
  if (const auto status = app.parse(argc, argv)) return *status;
  std::cout << cuda::describe() << "cpu  " << num_threads() << " threads\n";
  for (int i = 0; i < cuda::device_count(); ++i) {
    const Device device(DeviceType::cuda, i);
    std::cout << memory_summary(device);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(device_info, argc, argv); }
