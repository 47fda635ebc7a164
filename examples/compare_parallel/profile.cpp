// A step on one device: forward, backward gradient by gradient, and the optimizer.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/terminal.h"
#include "ferrite/examples/compare_parallel/measure.h"
#include "ferrite/examples/compare_parallel/strategies.h"
#include "ferrite/examples/compare_parallel/training.h"
#include "ferrite/nn/summary.h"
#include "ferrite/parallel/comm/process_group.h"

namespace examples::compare {

using namespace ferrite;
using planning::Duration;
using planning::ModelProfile;

namespace {

using Clock = std::chrono::steady_clock;

/// Points in time on a device: of the host clock readings, of others events.
class Marks {
 public:
  explicit Marks(const Device& device) : device_(device) {}

  void clear() { times_.clear(), events_.clear(); }
  void add() {
    if (device_.is_host()) return times_.push_back(Clock::now());
    events_.emplace_back().record(current_stream(device_));
  }
  std::size_t size() const { return device_.is_host() ? times_.size() : events_.size(); }
  /// Seconds from one to the other, once the device is done.
  double between(std::size_t from, std::size_t to) const {
    if (device_.is_host()) return std::chrono::duration<double>(times_[to] - times_[from]).count();
    return events_[to].elapsed_ms(events_[from]) * 1e-3;
  }

 private:
  const Device device_;
  std::vector<Clock::time_point> times_;
  std::vector<Event> events_;
};

Duration duration_of(const Samples& samples) { return {samples.median(), samples.spread()}; }

/// One device's training, measured step by step.
class Profiler {
 public:
  Profiler(const Options& o, const Case& what)
      : device_(device_of(o, parallel::get_local_rank(), false)),  // side by side: one each
        trainee_(o, what.amp, device_),
        batch_(to_device(load_images(o, what.batch), device_, o)),
        marks_(device_) {
    for (const auto& [name, parameter] : trainee_.model().named_parameters()) {
      names_.push_back(name);
      parameters_.push_back(parameter);
      const std::size_t index = parameters_.size() - 1;
      hooks_.push_back(parameter.register_post_accumulate_grad_hook([this, index](const Tensor&) {
        order_.push_back(index);
        marks_.add();
      }));
    }
  }
  ~Profiler() {
    for (TensorHook& hook : hooks_) hook.remove();
  }

  void step(bool measured) {
    marks_.clear();
    order_.clear();
    const Clock::time_point start = Clock::now();
    marks_.add();
    trainee_.zero_grad();
    marks_.add();
    Tensor output = trainee_.model()(batch_.inputs);
    const Tensor loss = loss_of(output, batch_.labels);
    output_bytes_ = static_cast<std::int64_t>(output.nbytes());
    output = Tensor();
    marks_.add();
    trainee_.backward(loss);
    marks_.add();
    trainee_.update();
    marks_.add();
    synchronize(device_);
    if (measured) add_up(std::chrono::duration<double>(Clock::now() - start).count());
  }

  ModelProfile profile() const;

 private:
  static constexpr std::size_t kBackward = 2;  // its mark; then come those of gradients

  void add_up(double seconds) {
    const std::size_t gradients = order_.size(), end = kBackward + gradients + 1;
    step_.values.push_back(seconds);
    zero_grad_.values.push_back(marks_.between(0, 1));
    forward_.values.push_back(marks_.between(1, kBackward));
    tail_.values.push_back(marks_.between(end - 1, end));
    optimizer_.values.push_back(marks_.between(end, end + 1));
    backward_.resize(gradients);
    for (std::size_t i = 0; i < gradients; ++i)
      backward_[i].values.push_back(marks_.between(kBackward + i, kBackward + i + 1));
  }

  const Device device_;
  Trainee trainee_;
  const data::Batch batch_;
  Marks marks_;
  std::vector<std::string> names_;
  std::vector<Tensor> parameters_;
  std::vector<TensorHook> hooks_;
  std::vector<std::size_t> order_;  // in which gradients came
  std::int64_t output_bytes_ = 0;
  Samples step_, zero_grad_, forward_, tail_, optimizer_;
  std::vector<Samples> backward_;
};

ModelProfile Profiler::profile() const {
  ModelProfile p;
  p.batch = batch_.size();
  p.input_bytes = static_cast<std::int64_t>(batch_.inputs.nbytes() + batch_.labels.nbytes());
  p.output_bytes = output_bytes_;
  p.forward = duration_of(forward_);
  p.backward_tail = duration_of(tail_);
  p.optimizer = duration_of(optimizer_);
  p.step = duration_of(step_);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::size_t index = order_[i];
    p.parameters.push_back({.name = names_[index],
                            .bytes = static_cast<std::int64_t>(parameters_[index].nbytes()),
                            .backward = duration_of(backward_[i])});
  }
  // What the host takes between the parts is not in any of them.
  p.other = {std::max(zero_grad_.median(), p.step.median - p.step_s()), zero_grad_.spread()};
  return p;
}

}  // namespace

ModelProfile measure_profile(const Options& o, const Case& what) {
  Profiler profiler(o, what);
  for (int i = 0; i < o.warmup; ++i) profiler.step(false);
  for (int i = 0; i < std::max(5, o.steps); ++i) profiler.step(true);
  ModelProfile profile = profiler.profile();
  profile.model = o.model;
  profile.dtype = what.amp == "O0" ? "float32" : "amp " + what.amp;
  profile.device = o.is_cuda() ? cuda::properties(parallel::get_local_rank()).name
                               : fmt::format("CPU, {}", terminal::counted(what.threads, "thread"));
  for (const Tensor& buffer : make_network(o)->buffers())
    profile.buffer_bytes += static_cast<std::int64_t>(buffer.nbytes());
  return profile;
}

Model measure_model(const Options& o) {
  const auto network = make_network(o);
  Model model;
  model.name = o.model;
  for (const Tensor& p : network->parameters())
    model.parameter_bytes += static_cast<std::int64_t>(p.nbytes());
  for (const Tensor& b : network->buffers())
    model.buffer_bytes += static_cast<std::int64_t>(b.nbytes());
  model.parameters = network->num_parameters();
  const Tensor image = load_images(o, 1).inputs;
  for (int d = 1; d < image.dim(); ++d) model.input_shape.push_back(image.size(d));
  model.multiply_adds = nn::summary(*network, image).multiply_adds;
  return model;
}

}  // namespace examples::compare
