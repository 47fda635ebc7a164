// Training steps for the benchmark, op by op or as one graph, and the memory they take.
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
#include "ferrite/optim/sgd.h"

namespace bench {

/// Runs steps: forward, cross entropy, backward, SGD; or forward alone.
class Trainer {
 public:
  explicit Trainer(const Options& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Queues `steps` steps.
  void run(Mode mode, std::int64_t steps);
  /// Waits until they are done.
  void synchronize() const;
  /// Of the last step.
  double loss() const;
  /// From here on peaks are counted.
  void reset_peak_memory();
  /// "peak_bytes": on the CPU of the process, on a CUDA device of the tensors; of the latter also
  /// "reserved_bytes", with what the allocator keeps.
  nlohmann::json peak_memory() const;

 private:
  const Batch& next();
  void train(std::int64_t steps);
  void forward(std::int64_t steps);

  using Step =
      std::function<ferrite::Tensor(const ferrite::Tensor& images, const ferrite::Tensor& labels)>;

  ferrite::Device device_;
  std::vector<Batch> batches_;
  std::unique_ptr<ferrite::nn::Module> model_;
  ferrite::optim::SGD sgd_;
  ferrite::optim::amp::Amp amp_;
  Step step_;
  std::optional<ferrite::nn::GraphedStep<Step>> graphed_;
  ferrite::Tensor loss_;             // of the last step, where that trained
  ferrite::Tensor output_, labels_;  // else its output
  std::size_t next_ = 0;
};

/// Threads and the libraries' settings.
void apply(const Options& options);
/// Versions, and what they run on.
nlohmann::json describe(const ferrite::Device& device);
/// What this program cannot do here, with the reason: "cuda", "graph".
nlohmann::json lacks();

}  // namespace bench
