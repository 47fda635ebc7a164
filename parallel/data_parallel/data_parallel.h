// DataParallel: one process, several devices (torch.nn.DataParallel): a parameter server on the
// first device. Every forward() splits the batch, sends the parameters to the other devices, runs
// all replicas at the same time and gathers the outputs; backward adds up the gradients on the
// first device, where the optimizer runs.
//
//   Net net;
//   net.to("cuda:0");
//   parallel::DataParallel dp(net, {"cuda:0", "cuda:1"});
//   optim::SGD sgd(dp.parameters(), {.lr = 0.1});
//   ...
//   cross_entropy(dp(images), labels).backward();
//   sgd.step();
//
// It is a module with the parameters, buffers, modules and names of the one it wraps, which must
// outlive it. Of the buffers (running statistics) those of the first replica are kept. See
// data_parallel_criterion.h for losses that are computed by the replicas.
#pragma once

#include <optional>
#include <vector>

#include "nn/module.h"
#include "parallel/data_parallel/device_comm.h"
#include "parallel/data_parallel/gather.h"
#include "parallel/data_parallel/parallel_apply.h"
#include "parallel/data_parallel/replicate.h"
#include "parallel/data_parallel/scatter.h"

namespace ferrite::parallel {

struct DataParallelOptions {
  /// Where outputs are gathered; the first device where nothing is said.
  std::optional<Device> output_device = {};
  int dim = 0;  ///< of inputs and outputs, that is split
  double bucket_cap_mb = 25;
  std::string backend = {};  ///< of make_device_comm
};

// What is fixed of the classes (to be written here):
//
// class DataParallelBase : public nn::Module     what does not depend on the model's type
//   const std::vector<Device>& devices() const;
//   const DataParallelOptions& options() const;
//   DataParallelReport report() const; void reset_report();     data_parallel_report.h
//
// template <class M = nn::Module> class DataParallel final : public DataParallelBase
//   explicit DataParallel(M& module, std::vector<Device> devices = {},     all CUDA devices
//                         const DataParallelOptions& options = {});
//   M& module() const;
//   auto operator()(inputs...)         what M returns, gathered
//   auto parallel_forward(inputs...)   std::vector of what each replica returns, where it is
//   Tensor forward(const Tensor&) override

}  // namespace ferrite::parallel
