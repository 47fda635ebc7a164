#include "ferrite/parallel/pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "ferrite/ops/creation.h"
#include "ferrite/parallel/pipeline/partition.h"
#include "ferrite/parallel/pipeline/pipeline_state.h"

namespace ferrite::parallel {

namespace {

constexpr std::size_t kLargestPending = 16;  // maximum number of unfinished steps that are timed

const char* mode_name(PipelineCheckpoint checkpoint) {
  switch (checkpoint) {
    case PipelineCheckpoint::always:
      return "always";
    case PipelineCheckpoint::never:
      return "never";
    default:
      return "except_last";
  }
}

std::vector<Device> devices_of(std::span<const PipelineStage> stages) {
  std::vector<Device> devices;
  for (const PipelineStage& stage : stages) devices.push_back(stage.device);
  return devices;
}

const PipelineOptions& checked(const PipelineOptions& options) {
  FERRITE_CHECK(options.chunks > 0, ValueError, "pipeline", "expected one chunk or more, got {}",
                options.chunks);
  return options;
}

}  // namespace

Pipeline::State::State(nn::Sequential& model, std::vector<PipelineStage> of,
                       const PipelineOptions& options)
    : model(model), where(std::move(of)), options(options), memory_(devices_of(where)) {
  // Reports problems with a device before anything is moved.
  for (const PipelineStage& stage : where) zeros({1}, {.device = stage.device});
  stages.resize(where.size());
  for (std::size_t s = 0; s + 1 < stages.size(); ++s)
    if (!(where[s].device == where[s + 1].device))
      stages[s].next = std::make_shared<pipeline::StageLink>(where[s].device, where[s + 1].device);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PipelineStage& stage = where[s];
    Stage& made = stages[s];
    made.layers = pipeline::layers_of(model, stage);
    PipelineReport::Stage& reported = sums_.stages.emplace_back();
    reported.device = stage.device;
    reported.first_layer = stage.first_layer;
    reported.layers = stage.layers;
    for (nn::Module* layer : made.layers) {
      layer->to(stage.device);
      for (const Tensor& p : layer->parameters()) {
        reported.parameters += p.numel();
        reported.bytes += static_cast<std::int64_t>(p.nbytes());
      }
    }
    if (options.deferred_batch_norm)
      made.norms = std::make_unique<pipeline::DeferredNorms>(made.layers);
  }
}

void Pipeline::State::add_up() {
  std::erase_if(pending_, [&](const std::shared_ptr<pipeline::StepTimes>& step) {
    if (!step->passed()) return false;
    step->add(sums_);
    ++sums_.timed;
    return true;
  });
}

PipelineReport Pipeline::State::report() {
  std::lock_guard lock(mutex_);
  add_up();
  PipelineReport report = sums_;
  report.memory = memory_.report();
  if (report.micro_batches > 0)
    report.expected_bubble = bubble_fraction(static_cast<int>(stages.size()), report.micro_batches);
  if (report.timed == 0) return report;
  const auto n = static_cast<double>(report.timed);
  double busy = 0;
  for (PipelineReport::Stage& stage : report.stages) {
    stage.forward_ms /= n;
    stage.recompute_ms /= n;
    stage.backward_ms /= n;
    busy += stage.busy_ms();
  }
  report.step_ms /= n;
  report.bytes_moved /= report.timed;
  if (report.step_ms > 0)
    report.measured_bubble =
        1 - busy / (report.step_ms * static_cast<double>(report.memory.size()));
  return report;
}

void Pipeline::State::reset_report() {
  std::lock_guard lock(mutex_);
  pending_.clear();
  PipelineReport fresh;
  for (const PipelineReport::Stage& s : sums_.stages)
    fresh.stages.push_back({.device = s.device,
                            .first_layer = s.first_layer,
                            .layers = s.layers,
                            .parameters = s.parameters,
                            .bytes = s.bytes});
  sums_ = std::move(fresh);
  memory_.reset();
}

std::shared_ptr<pipeline::StepTimes> Pipeline::State::time_step(int micro_batches) {
  std::lock_guard lock(mutex_);
  add_up();
  // Steps without a backward never end.
  while (pending_.size() >= kLargestPending) pending_.pop_front();
  ++sums_.steps;
  sums_.micro_batches = micro_batches;
  memory_.begin();
  return pending_.emplace_back(
      std::make_shared<pipeline::StepTimes>(static_cast<int>(stages.size()), micro_batches));
}

Pipeline::Pipeline(nn::Sequential& model, std::vector<Device> devices,
                   const PipelineOptions& options)
    : state_(std::make_shared<State>(
          model, pipeline::stages_of(model, devices, checked(options).balance), options)) {
  wrap_module(model);
}

Pipeline::~Pipeline() = default;

Tensor Pipeline::forward(const Tensor& input) { return state_->forward(input); }

nn::Sequential& Pipeline::module() const { return state_->model; }
const PipelineOptions& Pipeline::options() const { return state_->options; }
const std::vector<PipelineStage>& Pipeline::stages() const { return state_->where; }
const Device& Pipeline::input_device() const { return state_->where.front().device; }
const Device& Pipeline::output_device() const { return state_->where.back().device; }

PipelineReport Pipeline::report() const { return state_->report(); }
void Pipeline::reset_report() { state_->reset_report(); }

std::string Pipeline::extra_repr() const {
  std::vector<std::string> devices;
  std::vector<std::int64_t> balance;
  for (const PipelineStage& stage : stages()) {
    devices.push_back(stage.device.str());
    balance.push_back(stage.layers);
  }
  return fmt::format("devices=[{}], balance=[{}], chunks={}, checkpoint={}",
                     fmt::join(devices, ", "), fmt::join(balance, ", "), options().chunks,
                     mode_name(options().checkpoint));
}

}  // namespace ferrite::parallel
