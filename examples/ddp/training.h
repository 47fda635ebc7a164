// The work of each rank of the example.
#pragma once

#include <string>

#include "ferrite/core/device.h"
#include "ferrite/examples/common/training_options.h"
#include "ferrite/examples/ddp/node.h"

namespace examples::ddp {

struct Options : TrainingOptions {
  NodeOptions node;
  std::string backend;            ///< nccl or gloo; empty: by the device
  bool sync_bn = false;           ///< norms by the statistics of all ranks
  std::string scale_lr = "none";  ///< scaling with the number of processes: none, linear or sqrt
};

/// Trains and evaluates, together with the other ranks of the default group. Rank 0 reports.
void train(const Options& options, const ferrite::Device& device);

}  // namespace examples::ddp
