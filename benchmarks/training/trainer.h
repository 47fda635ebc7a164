// Training steps for the benchmark, op by op or as one graph, and the memory they take.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/training/task.h"
#include "optim/amp/amp.h"
#include "optim/graphed_step.h"
#include "optim/sgd.h"

namespace ferrite::bench {

struct Options {
  std::string model = "lenet5";
  std::string device = "cpu";
  std::string layout = "channels_last";
  std::string precision = "float32";
  std::string execution = "eager";
  std::string amp_dtype;    ///< of precision amp; empty: float16, bfloat16 on the CPU
  bool checkpoint = false;  ///< ResNet's blocks keep only their inputs for backward
  bool cudnn_benchmark = true;
  std::int64_t batch = 64, steps = 0, warmup = 10, batches = 4;
  double seconds = 0.5;
  int threads = 1;
  double lr = 0.05, momentum = 0.9;

  MemoryFormat format() const { return layout == "channels_last" ? kChannelsLast : kContiguous; }
};

/// Runs steps: forward, cross entropy, backward, SGD.
class Trainer {
 public:
  explicit Trainer(const Options& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Queues `steps` steps.
  void run(std::int64_t steps);
  /// Waits until they are done.
  void synchronize() const;
  /// Of the last step.
  double loss() const;
  /// Steps that were replayed.
  std::int64_t replayed() const { return graphed_ ? graphed_->stats().replayed : 0; }

 private:
  using Step = std::function<Tensor(const Tensor& images, const Tensor& labels)>;

  Device device_;
  std::vector<Batch> batches_;
  std::unique_ptr<nn::Module> model_;
  optim::SGD sgd_;
  optim::amp::Amp amp_;
  Step step_;
  std::optional<cuda::GraphedStep<Step>> graphed_;
  Tensor loss_;
  std::size_t next_ = 0;
};

/// Threads and the libraries' settings.
void apply(const Options& options);
/// Versions, and what they run on.
nlohmann::json describe(const Device& device);
/// What this program cannot do here, with the reason: "cuda", "graph".
nlohmann::json lacks();

/// From here on peaks are counted.
void reset_peak_memory(const Device& device);
/// "peak_bytes": on the CPU of the process, on a CUDA device of the tensors; of the latter also
/// "reserved_bytes", with what the allocator keeps.
nlohmann::json peak_memory(const Device& device);

}  // namespace ferrite::bench
