#include "ferrite/autograd/checkpoint.h"

#include <algorithm>
#include <deque>

#include "ferrite/autograd/meta.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/generator_scope.h"

namespace ferrite::autograd {

namespace {

thread_local int recomputations = 0;

struct Recomputation {
  Recomputation() { ++recomputations; }
  ~Recomputation() { --recomputations; }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;
};

}  // namespace

bool is_recomputing() { return recomputations > 0; }

std::shared_ptr<const void>& CheckpointOwner::current() {
  thread_local std::shared_ptr<const void> owner;
  return owner;
}

namespace detail {

namespace {

/// The state of the default generator of `device`. If its current stream is being captured into a
/// graph, this is the state within the capture, because only the graph knows what it will have
/// drawn.
PhiloxState random_state(const Device& device) {
  Generator& generator = default_generator(device);
  if (device.is_cuda())
    if (const auto captured =
            ferrite::detail::cuda::captured_draw(current_stream(device), generator, 0))
      return *captured;
  return generator.state();
}

/// While it lives, this thread draws from default generators starting at saved states. Meanwhile
/// other threads may rerun other functions, or draw for the first time.
class RandomStates {
 public:
  RandomStates() = default;
  ~RandomStates() {
    while (!scopes_.empty()) scopes_.pop_back();
    for (const auto& [device, now] : captured_) seek(device, now);
  }
  RandomStates(const RandomStates&) = delete;
  RandomStates& operator=(const RandomStates&) = delete;

  void begin(const Device& device, const PhiloxState& state) {
    const bool captured =
        device.is_cuda() &&
        (state.base || ferrite::detail::cuda::is_capturing(current_stream(device)));
    if (!captured) {
      scopes_.emplace_back(default_generator(device), state);
      return;
    }
    const PhiloxState now = random_state(device);
    seek(device, state);
    captured_.emplace_back(device, now);
  }

 private:
  static void seek(const Device& device, const PhiloxState& state) {
    ferrite::detail::cuda::captured_seek(current_stream(device), default_generator(device), state);
  }

  std::deque<GeneratorScope> scopes_;
  std::vector<std::pair<Device, PhiloxState>> captured_;
};

}  // namespace

RecomputedTensor::RecomputedTensor(std::shared_ptr<CheckpointRegion> region, const Tensor& like)
    : region(std::move(region)), shape(like.shape()), dtype(like.dtype()) {}

Tensor RecomputedTensor::get() {
  region->compute(*this);
  const Stream here = current_stream(value.device());
  if (!(here == stream)) {
    here.wait(stream);
    value.storage()->record_stream(here);
  }
  return value;
}

CheckpointRegion::CheckpointRegion(Function function, const std::vector<Tensor>& inputs)
    : owner_(CheckpointOwner::current()),
      function_(std::move(function)),
      autocast_(autocast_state()) {
  const auto remember = [&](const Device& device) {
    if (std::ranges::none_of(random_states_, [&](const auto& s) { return s.first == device; }))
      random_states_.emplace_back(device, random_state(device));
  };
  remember(Device());
  for (const Tensor& input : inputs) {
    inputs_.emplace_back(input);
    if (input.defined()) remember(input.device());
  }
}

void CheckpointRegion::save(Saved& saved) {
  if (running_again_) return collect(saved);
  saved.recomputed_ = std::make_shared<RecomputedTensor>(shared_from_this(), saved.tensor_);
  tensors_.push_back(saved.recomputed_);
  saved.tensor_ = Tensor();
}

void CheckpointRegion::collect(Saved& saved) {
  const Tensor tensor = std::exchange(saved.tensor_, Tensor());
  const std::size_t i = collected_++;
  if (i >= tensors_.size()) return;
  const std::shared_ptr<RecomputedTensor> target = tensors_[i].lock();
  if (!target || target->value.defined()) return;
  FERRITE_CHECK(tensor.shape() == target->shape && tensor.dtype() == target->dtype, AutogradError,
                "checkpoint",
                "run again, the function did something else: saved tensor {} is {}, it was {}{}", i,
                tensor.describe(), target->dtype, target->shape);
  target->value = tensor;
  target->stream = current_stream(tensor.device());
  target->version = tensor.version();
}

void CheckpointRegion::compute(const RecomputedTensor& wanted) {
  std::lock_guard lock(mutex_);
  if (wanted.value.defined()) return;
  run_again();
  FERRITE_CHECK(wanted.value.defined(), AutogradError, "checkpoint",
                "run again, the function did something else: a tensor that it saved is not there");
}

bool CheckpointRegion::recompute() {
  std::lock_guard lock(mutex_);
  const bool wanted = std::ranges::any_of(tensors_, [](const auto& tensor) {
    const std::shared_ptr<RecomputedTensor> there = tensor.lock();
    return there && !there->value.defined();
  });
  if (wanted) run_again();
  return wanted;
}

void CheckpointRegion::run_again() {
  EnableGradGuard grad_mode;
  const IntrusivePtr<AutocastState> autocast = autocast_ ? autocast_->renewed() : nullptr;
  const AutocastScope autocast_scope(autocast.get());
  const DefaultDeviceScope default_device(default_device_);
  std::vector<Tensor> inputs;
  for (const Saved& input : inputs_) inputs.push_back(input.get());

  RandomStates again;
  for (const auto& [device, state] : random_states_) again.begin(device, state);
  collected_ = 0;
  running_again_ = true;
  {
    CheckpointScope scope(*this);
    const CheckpointOwner owner(owner_);
    const Recomputation recomputation;
    try {
      function_(inputs);
    } catch (...) {
      running_again_ = false;
      throw;
    }
  }
  running_again_ = false;
  FERRITE_CHECK(collected_ == tensors_.size(), AutogradError, "checkpoint",
                "run again, the function did something else: it saved {} tensors, before it was {}",
                collected_, tensors_.size());
}

}  // namespace detail

}  // namespace ferrite::autograd
