// Training of a network with stages on several devices.
#pragma once

#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/examples/common/training_options.h"

namespace examples::pipeline {

struct Options : TrainingOptions {
  int stages = 2;
  std::vector<std::string> devices;  ///< empty: CUDA devices if there are enough, else cpu:0, ...
  int chunks = 4;
  std::string checkpoint = "except_last";
  std::string balance = "time";
  std::int64_t width = 16;  ///< channels of ResNet-18's first stage
  std::int64_t measured = 8;
};

/// The devices of the stages. DeviceError if one does not exist.
std::vector<ferrite::Device> devices_of(const Options& options);

void train(const Options& options, const std::vector<ferrite::Device>& devices);

}  // namespace examples::pipeline
