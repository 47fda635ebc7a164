// Pipeline: a network split by layers over devices, each of which holds one stage of it. A batch
// goes through in micro-batches, so that the devices work at the same time (GPipe: Huang et al.,
// 2019; torchgpipe: Kim et al., 2020; torch.distributed.pipeline.sync.Pipe).
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
// Gradients and weights are those of the model on one device, but for how sums are rounded, and the
// same at every run, unless stages of a device that do not follow each other share a weight: the
// order in which such a weight's gradients are added is not fixed.
//
// - One thread issues the work of all devices, in the order of gpipe_schedule(); devices overlap
//   where they work behind the host's back, as CUDA devices and virtual ones ("cpu:0") do, and not
//   on the host itself ("cpu"). A layer that reads its device (item()) holds all of them up.
// - Activations and gradients cross on streams of their own. Backward runs the micro-batches from
//   the last to the first, with one thread a device (autograd/engine.h).
// - Batch norms see a micro-batch at a time: they normalise by its statistics, and update running
//   statistics once each (see deferred_batch_norm). Dropout draws from the generator of its stage's
//   device, one micro-batch after another.
// - Grad mode, autocast, train() and eval() are the caller's, as are the current streams.
// - Hooks of the Sequential itself do not run, those of its layers do, once a micro-batch, and once
//   more where that is computed again: then in the thread of its device's backward.
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

/// Which micro-batches keep only the inputs of stages for backward, which computes the rest again
/// (autograd/checkpoint.h): as soon as its stage is free, while gradients are still on their way.
/// In eval mode none, as in torch.
enum class PipelineCheckpoint : std::uint8_t {
  always,
  except_last,  ///< all but the last one, whose backward comes at once
  never,
};

struct PipelineOptions {
  int chunks = 1;  ///< micro-batches
  PipelineCheckpoint checkpoint = PipelineCheckpoint::except_last;
  /// Layers of each stage; empty: as equal in number as can be. See balance_by_time().
  std::vector<std::int64_t> balance = {};
  /// Whether batch norms in training update their running statistics once a mini-batch, by the mean
  /// and variance of all of its micro-batches together (torchgpipe's); they still normalise by the
  /// statistics of the micro-batch. Synchronised ones are left as they are.
  bool deferred_batch_norm = false;
};

/// Layers [first_layer, first_layer + layers) of the model.
struct PipelineStage {
  Device device = {};
  std::int64_t first_layer = 0, layers = 0;
};

class Pipeline final : public nn::Module {
 public:
  /// One stage a number in `options.balance`, stage i on devices[i] (without a balance, one a
  /// device). A device may have several stages. Without devices, layers stay where they are, as
  /// with torch's Pipe: those that follow each other on one device are a stage, and layers without
  /// parameters and buffers go with those before.
  /// ValueError where numbers do not fit: chunks or a stage's layers below 1, layers that the model
  /// does not have, stages without a device, no layers; where two stages on different devices share
  /// a parameter or buffer, by its names; where layers that stay where they are have several
  /// devices each, or are not as a given balance says. CudaError where a device is lost. Nothing
  /// has been moved then. (That a device is there at all is seen to by Device: DeviceError.)
  /// OutOfMemoryError where one does not hold its layers; those before are on theirs then.
  explicit Pipeline(nn::Sequential& model, std::vector<Device> devices = {},
                    const PipelineOptions& options = {});
  ~Pipeline() override;

  /// The model's output on output_device(). `input` may be on any device; it is split along
  /// dimension 0 as chunk() does: 30 in 4 is 8, 8, 8, 6, and there are fewer micro-batches than
  /// `chunks` where 5 in 4 is 2, 2, 1. So must the outputs of all layers go by rows: those of the
  /// micro-batches are joined along dimension 0 (ShapeError where the last has none). Copies of
  /// host memory that is not pinned are waited for.
  ///
  /// What a layer throws comes out with the same type, tagged with the stage, its device and the
  /// micro-batch; the next call starts afresh. Errors that a device finds while it works come out
  /// when it is next synchronized, as always.
  Tensor forward(const Tensor& input) override;

  nn::Sequential& module() const;
  const PipelineOptions& options() const;
  const std::vector<PipelineStage>& stages() const;
  const Device& input_device() const;   ///< of the first stage
  const Device& output_device() const;  ///< of the last: where targets belong

  /// Since the start or the last reset_report(). Waits for nothing: a step that is under way is not
  /// in it.
  PipelineReport report() const;
  void reset_report();

  std::string name() const override { return "Pipeline"; }
  std::string extra_repr() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ferrite::parallel
