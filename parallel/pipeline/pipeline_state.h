// The state of a Pipeline. Graphs keep it alive after the Pipeline is destroyed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/parallel/pipeline/deferred_norm.h"
#include "ferrite/parallel/pipeline/pipeline.h"
#include "ferrite/parallel/pipeline/stage_link.h"
#include "ferrite/parallel/pipeline/step_times.h"

namespace ferrite::parallel {

struct Pipeline::State : std::enable_shared_from_this<Pipeline::State> {
  struct Stage {
    std::vector<nn::Module*> layers;
    std::unique_ptr<pipeline::DeferredNorms> norms;  // null where none are deferred
    std::shared_ptr<pipeline::StageLink> next;  // null where the next stage is on the same device
    Tensor run(const Tensor& x) const;
  };
  /// A micro-batch between two stages.
  struct Place {
    Tensor here;
    pipeline::StageLink::Sent sent = {};
    std::shared_ptr<pipeline::StageLink> link = {};  // null: it is here
    Tensor take();
  };
  struct Step;

  /// Moves the layers to their devices.
  State(nn::Sequential& model, std::vector<PipelineStage> stages, const PipelineOptions& options);

  Tensor forward(const Tensor& input);
  PipelineReport report();
  void reset_report();

  nn::Sequential& model;
  const std::vector<PipelineStage> where;
  const PipelineOptions options;
  std::vector<Stage> stages;

 private:
  Place enter(const std::shared_ptr<Step>& step, const Tensor& part,
              const std::shared_ptr<pipeline::StageLink>& way_in);
  Place run(const std::shared_ptr<Step>& step, int stage, int micro_batch, Place& place);
  Tensor join(const std::vector<Place>& places) const;
  /// Calls f(); adds the place to its exceptions.
  template <class F>
  auto tagged(int stage, int micro_batch, F f) const;
  /// From the device of an input; null where that is the first stage's.
  std::shared_ptr<pipeline::StageLink> entrance(const Device& from);
  std::shared_ptr<pipeline::StepTimes> time_step(int micro_batches);
  void add_up();  // with `mutex_` held

  std::mutex mutex_;                                                       // of what follows
  std::map<std::string, std::shared_ptr<pipeline::StageLink>> entrances_;  // by device
  std::deque<std::shared_ptr<pipeline::StepTimes>> pending_;               // not in `sums_` yet
  PipelineReport sums_;
  pipeline::ActivationMemory memory_;
};

}  // namespace ferrite::parallel
