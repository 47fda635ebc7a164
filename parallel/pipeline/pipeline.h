// Pipeline: a network split by layers over devices, each of which holds one stage of it. A batch is
// split into micro-batches, so that the devices work at the same time (GPipe: Huang et al., 2019;
// torchgpipe: Kim et al., 2020; torch.distributed.pipeline.sync.Pipe).
//
//   nn::Sequential net(nn::Conv2d(1, 32, 3), nn::ReLU(), ..., nn::Linear(128, 10));
//   parallel::Pipeline pipe(net, {"cuda:0", "cuda:1"}, {.chunks = 8, .balance = {4, 3}});
//   optim::SGD sgd(pipe.parameters(), {.lr = 0.1});
//   ...
//   cross_entropy(pipe(images), labels.to("cuda:1")).backward();  // the output is on cuda:1
//   sgd.step();
//
// It is a module with the parameters, buffers, modules and names of the one it wraps, which must
// outlive it and all graphs of its results, and moves them to their devices; leave them there.
// Gradients and weights equal those of the model on one device, up to the rounding of sums, and are
// the same in every run. The exception is a weight shared by non-adjacent stages of one device: the
// order in which its gradients are added is not fixed.
//
// - One thread issues the work of all devices, in the order of gpipe_schedule(); asynchronous
//   devices, CUDA devices and virtual ones ("cpu:0"), overlap; the host itself ("cpu") does not. A
//   layer that reads a value from its device (item()) blocks all of them.
// - Activations and gradients are transferred on separate streams. Backward runs the micro-batches
//   from the last to the first, with one thread per device (autograd/engine.h).
// - Batch norms see one micro-batch at a time: they normalise by its statistics, and update running
//   statistics with each (see deferred_batch_norm). Dropout draws from the generator of its stage's
//   device, one micro-batch after another.
// - Grad mode, autocast, train() and eval() are the caller's, as are the current streams.
// - Hooks of the Sequential itself do not run. Those of its layers run once per micro-batch, and
//   again in a recomputation, in the thread of its device's backward.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/nn/containers.h"
#include "ferrite/parallel/pipeline/balance.h"
#include "ferrite/parallel/pipeline/schedule.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel {

/// The micro-batches for which stages keep only their inputs for backward, and recompute the rest
/// (autograd/checkpoint.h) as soon as the stage is free, while gradients are still on their way. In
/// eval mode none, as in torch.
enum class PipelineCheckpoint : std::uint8_t {
  always,
  except_last,  ///< all but the last one, whose backward follows at once
  never,
};

struct PipelineOptions {
  int chunks = 1;  ///< micro-batches
  /// Which micro-batches are recomputed in backward.
  PipelineCheckpoint checkpoint = PipelineCheckpoint::except_last;
  /// Number of layers of each stage; empty: as equal as possible. See balance_by_time().
  std::vector<std::int64_t> balance = {};
  /// Whether batch norms in training update their running statistics once per mini-batch, by the
  /// mean and variance of all its micro-batches together (from torchgpipe); they still normalise by
  /// the statistics of the micro-batch. Synchronised ones are not changed.
  bool deferred_batch_norm = false;
};

/// Layers [first_layer, first_layer + layers) of the model.
struct PipelineStage {
  Device device = {};
  std::int64_t first_layer = 0;  ///< the index of the stage's first layer
  std::int64_t layers = 0;       ///< the number of layers of the stage
};

/// A network whose layers are divided into stages on several devices, through which the
/// micro-batches of a batch go one after another.
///
///   parallel::Pipeline pipeline(layers, {"cuda:0", "cuda:1"}, {.chunks = 4});
class Pipeline final : public nn::Module {
 public:
  /// Stage i, with options.balance[i] layers, is on devices[i]; without a balance, one stage per
  /// device. A device may have several stages. Without devices, layers stay where they are, as with
  /// torch's Pipe: consecutive layers on one device form a stage, and layers without parameters and
  /// buffers belong to the previous ones. ValueError if numbers do not match: chunks or a stage's
  /// layers below 1, more layers than the model has, stages without a device, no layers; if two
  /// stages on different devices share a parameter or buffer, naming it; if a layer that stays in
  /// place has several devices, or the devices contradict a given balance. CudaError if a device is
  /// lost. Nothing has been moved then. (Device itself checks that a device exists: DeviceError.)
  /// OutOfMemoryError if one cannot hold its layers; those before it have been moved then.
  explicit Pipeline(nn::Sequential& model, std::vector<Device> devices = {},
                    const PipelineOptions& options = {});
  ~Pipeline() override;

  /// The model's output on output_device(). `input` may be on any device; it is split along
  /// dimension 0 like chunk(): 30 in 4 is 8, 8, 8, 6, and there are fewer micro-batches than
  /// `chunks` if 5 in 4 is 2, 2, 1. The outputs of all layers must be split by rows too: those of
  /// the micro-batches are joined along dimension 0 (ShapeError if the last has none). Waits for
  /// copies of host memory that is not pinned.
  ///
  /// Exceptions of a layer are rethrown with the same type, tagged with the stage, its device and
  /// the micro-batch; the next call starts afresh. Errors that a device detects asynchronously are
  /// thrown when it is next synchronized, as always.
  Tensor forward(const Tensor& input) override;

  nn::Sequential& module() const;
  const PipelineOptions& options() const;
  const std::vector<PipelineStage>& stages() const;
  const Device& input_device() const;   ///< the device of the first stage
  const Device& output_device() const;  ///< that of the last, which should hold the targets

  /// Since the start or the last reset_report(). Does not wait: an unfinished step is not included.
  PipelineReport report() const;
  void reset_report();

  std::string name() const override { return "Pipeline"; }
  std::string extra_repr() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ferrite::parallel
