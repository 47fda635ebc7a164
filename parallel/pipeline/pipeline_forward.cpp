// A step of a Pipeline: forward, and the pipeline's own work in backward.
#include <fmt/format.h>

#include <utility>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/nn/fused.h"
#include "ferrite/ops/concat.h"
#include "ferrite/parallel/pipeline/partition.h"
#include "ferrite/parallel/pipeline/pipeline_state.h"

namespace ferrite::parallel {

using autograd::detail::CheckpointRegion;

/// State shared by one forward and the nodes of its tape.
struct Pipeline::State::Step {
  std::shared_ptr<State> state;
  std::shared_ptr<pipeline::StepTimes> times;  // null if backward will not run
  std::vector<Stream> streams;                 // of the stages
  int checkpointed = 0;                        // the first micro-batches

  const Stream& stream(int stage) const { return streams[static_cast<std::size_t>(stage)]; }
  const Device& device(int stage) const {
    return state->where[static_cast<std::size_t>(stage)].device;
  }
  Tensor compute(int stage, int micro_batch, const Tensor& x,
                 std::shared_ptr<CheckpointRegion>& region);
  void compute_again(int stage, int micro_batch, const std::shared_ptr<CheckpointRegion>& region);
  /// For links: counts what crosses in this step.
  pipeline::StageLink::Crossed crossed() const {
    if (!times) return {};
    return [times = times](std::int64_t bytes) { times->crossed(bytes); };
  }
  void begin_backward(int stage, int micro_batch);
  void end_backward(int stage, int micro_batch);
};

Tensor Pipeline::State::Stage::run(const Tensor& x) const {
  std::optional<pipeline::DeferredNorms::MicroBatch> remembered;
  if (norms) remembered.emplace(*norms);
  return nn::run_in_order(layers, x);
}

Tensor Pipeline::State::Place::take() {
  const Place from = std::exchange(*this, {});
  return from.link ? from.link->receive(from.sent) : from.here;
}

template <class F>
auto Pipeline::State::tagged(int stage, int micro_batch, F f) const {
  try {
    return f();
  } catch (...) {
    const auto s = static_cast<std::size_t>(stage);
    pipeline::rethrow_from(
        fmt::format("{}, micro-batch {}", pipeline::describe(where[s], s), micro_batch));
  }
}

/// The stage's work on a micro-batch; sets `region` if it is checkpointed.
Tensor Pipeline::State::Step::compute(int stage, int micro_batch, const Tensor& x,
                                      std::shared_ptr<CheckpointRegion>& region) {
  const Stage& of = state->stages[static_cast<std::size_t>(stage)];
  if (times) times->begin(pipeline::StepTimes::kForward, stage, micro_batch, stream(stage));
  Tensor y;
  if (micro_batch < checkpointed) {
    region = std::make_shared<CheckpointRegion>(
        [state = state, &of](const std::vector<Tensor>& again) { of.run(again[0]); },
        std::vector<Tensor>{x});
    autograd::detail::CheckpointScope scope(*region);
    y = of.run(x);
  } else {
    y = of.run(x);
  }
  if (times) {
    times->end(pipeline::StepTimes::kForward, stage, micro_batch, stream(stage));
    state->memory_.look(device(stage));
  }
  FERRITE_CHECK(y.defined() && y.device() == device(stage), DeviceError, "forward",
                "the result is {}, expected a tensor on {}",
                y.defined() ? y.describe() : "undefined", device(stage));
  return y;
}

/// Recomputes the discarded tensors of the micro-batch that the stage's device runs backward for
/// next. Its gradient is still on its way, and nothing waits for it yet.
void Pipeline::State::Step::compute_again(int stage, int micro_batch,
                                          const std::shared_ptr<CheckpointRegion>& region) {
  if (times) times->close(stage, micro_batch, stream(stage));
  if (!region) return;
  const StreamGuard guard(stream(stage));
  state->tagged(stage, micro_batch, [&] {
    if (times) times->begin(pipeline::StepTimes::kRecompute, stage, micro_batch, stream(stage));
    if (region->recompute() && times)
      times->end(pipeline::StepTimes::kRecompute, stage, micro_batch, stream(stage));
  });
  if (times) state->memory_.look(device(stage));
}

void Pipeline::State::Step::begin_backward(int stage, int micro_batch) {
  if (!times) return;
  // No node reports where the first stage's backward ends.
  if (times->first_of_backward())
    autograd::queue_callback([times = times, streams = streams] { times->finish(streams); });
  times->begin(pipeline::StepTimes::kBackward, stage, micro_batch, stream(stage));
}

void Pipeline::State::Step::end_backward(int stage, int micro_batch) {
  if (times) times->end(pipeline::StepTimes::kBackward, stage, micro_batch, stream(stage));
}

Pipeline::State::Place Pipeline::State::run(const std::shared_ptr<Step>& step, int stage,
                                            int micro_batch, Place& place) {
  const Stream& stream = step->stream(stage);
  const std::shared_ptr<pipeline::StageLink>& next = stages[static_cast<std::size_t>(stage)].next;
  // What a stage's input is used for may be several gradients: they are added on this side.
  const Tensor x = pipeline::passed_through("pipeline_stage_input", place.take(), stream,
                                            [step, stage, micro_batch](const Tensor& gradient) {
                                              step->end_backward(stage, micro_batch);
                                              return gradient;
                                            });
  std::shared_ptr<CheckpointRegion> region;
  const std::uint64_t communicating = autograd::communicating_nodes();
  Tensor y = step->compute(stage, micro_batch, x, region);
  const bool recomputing_communicates = region && autograd::communicating_nodes() > communicating;
  const auto returned = next ? std::make_shared<pipeline::StageLink::Returned>() : nullptr;
  y = pipeline::passed_through(
      "pipeline_stage_output", y, stream,
      [step, stage, micro_batch, region, returned](const Tensor& gradient) {
        step->compute_again(stage, micro_batch, region);
        if (returned)
          pipeline::StageLink::receive_gradient(gradient, *returned, step->stream(stage));
        step->begin_backward(stage, micro_batch);
        return gradient;
      });
  if (recomputing_communicates && y.requires_grad()) autograd::mark_communicating(y);
  if (!next) return {y};
  return {{}, next->send(y, returned, step->crossed()), next};
}

std::shared_ptr<pipeline::StageLink> Pipeline::State::entrance(const Device& from) {
  if (from == where.front().device) return nullptr;
  std::lock_guard lock(mutex_);
  std::shared_ptr<pipeline::StageLink>& link = entrances_[from.str()];
  if (!link) link = std::make_shared<pipeline::StageLink>(from, where.front().device);
  return link;
}

Pipeline::State::Place Pipeline::State::enter(const std::shared_ptr<Step>& step, const Tensor& part,
                                              const std::shared_ptr<pipeline::StageLink>& way_in) {
  const Stream stream = current_stream(part.device());
  const auto returned = std::make_shared<pipeline::StageLink::Returned>();
  const Tensor x = pipeline::passed_through(
      "pipeline_input", part, stream, [returned, stream](const Tensor& gradient) {
        pipeline::StageLink::receive_gradient(gradient, *returned, stream);
        return gradient;
      });
  return {{}, way_in->send(x, returned, step->crossed()), way_in};
}

Tensor Pipeline::State::forward(const Tensor& input) {
  FERRITE_CHECK(input.defined() && input.dim() > 0, ShapeError, "pipeline",
                "expected a batch, [N, ...], got {}",
                input.defined() ? input.describe() : "an undefined tensor");
  const std::vector<Tensor> parts = chunk(input, options.chunks);
  const int stage_count = static_cast<int>(stages.size()),
            micro_batches = static_cast<int>(parts.size());
  const auto step = std::make_shared<Step>();
  step->state = shared_from_this();
  if (grad_enabled() && !autograd::is_recomputing()) step->times = time_step(micro_batches);
  for (const PipelineStage& stage : where) step->streams.push_back(current_stream(stage.device));
  if (grad_enabled() && model.is_training()) {
    if (options.checkpoint == PipelineCheckpoint::always) step->checkpointed = micro_batches;
    if (options.checkpoint == PipelineCheckpoint::except_last)
      step->checkpointed = micro_batches - 1;
  }
  for (const Stage& stage : stages)
    if (stage.norms) stage.norms->begin();

  const std::shared_ptr<pipeline::StageLink> way_in = entrance(input.device());
  Event entered;
  std::vector<Place> places(parts.size());
  for (const auto& [tick, stage, micro_batch] : gpipe_schedule(stage_count, micro_batches)) {
    Place& place = places[static_cast<std::size_t>(micro_batch)];
    tagged(stage, micro_batch, [&, stage = stage, micro_batch = micro_batch] {
      if (stage == 0) {
        const Tensor& part = parts[static_cast<std::size_t>(micro_batch)];
        place = way_in ? enter(step, part, way_in) : Place{part};
        entered = place.sent.landed;
      }
      place = run(step, stage, micro_batch, place);
    });
  }
  if (way_in) {
    // The caller may change its batch after this returns.
    if (!input.device().is_host())
      current_stream(input.device()).wait(entered);
    else if (!input.is_pinned())
      entered.synchronize();
  }
  for (const Stage& stage : stages)
    if (stage.norms) stage.norms->commit();
  return join(places);
}

Tensor Pipeline::State::join(const std::vector<Place>& places) const {
  if (places.size() == 1) return places.front().here;
  std::vector<Tensor> outputs;
  for (const Place& place : places) {
    FERRITE_CHECK(place.here.dim() > 0, ShapeError, "pipeline",
                  "the last layer's results have no rows to be joined along: {}",
                  place.here.describe());
    outputs.push_back(place.here);
  }
  return cat(outputs);
}

}  // namespace ferrite::parallel
