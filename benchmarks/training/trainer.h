// Training steps for the benchmark, eagerly or as one graph, and their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "ferrite/benchmarks/training/protocol.h"
#include "ferrite/benchmarks/training/task.h"
#include "ferrite/nn/graphed_step.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/optimizer.h"

namespace bench {

/// Runs steps: forward, cross entropy, backward, and SGD or, for texts, AdamW; or forward alone.
class Trainer {
 public:
  explicit Trainer(const Options& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Queues `steps` steps.
  void run(Mode mode, std::int64_t steps);
  /// Waits until they are done.
  void synchronize() const;
  /// The loss of the last step.
  double loss() const;
  /// network_flops() of the network.
  nlohmann::json flops();
  /// Restarts the measurement of peaks.
  void reset_peak_memory();
  /// "peak_bytes": of the process on the CPU, of the tensors on a CUDA device; for the latter also
  /// "reserved_bytes", including the allocator's cache.
  nlohmann::json peak_memory() const;

 private:
  const Batch& next();
  void train(std::int64_t steps);
  void forward(std::int64_t steps);

  using Step =
      std::function<ferrite::Tensor(const ferrite::Tensor& inputs, const ferrite::Tensor& labels)>;

  ferrite::Device device_;
  std::vector<Batch> batches_;
  std::unique_ptr<ferrite::nn::Module> model_;
  bool optimizes_;
  std::unique_ptr<ferrite::nn::Module> optimized_;  // made by the first forward pass
  std::unique_ptr<ferrite::optim::Optimizer> optimizer_;
  ferrite::optim::amp::Amp amp_;
  Step step_;
  std::optional<ferrite::nn::GraphedStep<Step>> graphed_;
  ferrite::Tensor loss_;             // of the last step, if it trained
  ferrite::Tensor output_, labels_;  // else its output
  std::size_t next_ = 0;
};

/// Applies threads and library settings.
void apply(const Options& options);
/// Versions, and the hardware.
nlohmann::json describe(const ferrite::Device& device);
/// Features that are not available here, with the reason: "cuda", "graph".
nlohmann::json lacks();

}  // namespace bench
