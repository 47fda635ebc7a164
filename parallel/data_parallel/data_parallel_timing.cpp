#include "ferrite/parallel/data_parallel/data_parallel_timing.h"

#include <algorithm>

#include "ferrite/core/profiler/range.h"

namespace ferrite::parallel::dp {

namespace {

/// Maximum number of steps still running on their devices; older ones are not timed.
constexpr std::size_t kUnderWay = 64;

Event mark(const Device& device) {
  Event event;
  event.record(current_stream(device));
  return event;
}

bool have_passed(const std::vector<std::pair<Event, Event>>& spans) {
  return std::ranges::all_of(
      spans, [](const auto& span) { return span.first.query() && span.second.query(); });
}

class MeasuredComm final : public DeviceComm {
 public:
  MeasuredComm(std::shared_ptr<DeviceComm> comm, std::shared_ptr<DataParallelTimes> times)
      : DeviceComm(comm->devices()), comm_(std::move(comm)), times_(std::move(times)) {}

  std::string_view backend() const override { return comm_->backend(); }

  std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) override {
    const profiler::detail::LibraryRange range(profiler::Kind::communication,
                                               "broadcast_coalesced");
    const std::lock_guard lock(mutex_);
    auto result = comm_->broadcast(tensors);
    times_->broadcast(comm_->bytes_broadcast() - bytes_broadcast_);
    bytes_broadcast_ = comm_->bytes_broadcast();
    return result;
  }
  std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts, int first) override {
    const profiler::detail::LibraryRange range(profiler::Kind::communication,
                                               "reduce_add_coalesced");
    const std::lock_guard lock(mutex_);
    const Event begun = mark(devices()[0]);
    auto result = comm_->reduce_add(parts, first);
    times_->reduced(comm_->bytes_reduced() - bytes_reduced_, begun);
    bytes_reduced_ = comm_->bytes_reduced();
    return result;
  }

 private:
  const std::shared_ptr<DeviceComm> comm_;
  const std::shared_ptr<DataParallelTimes> times_;
  std::mutex mutex_;
};

}  // namespace

std::shared_ptr<DeviceComm> make_measured_comm(std::shared_ptr<DeviceComm> comm,
                                               std::shared_ptr<DataParallelTimes> times) {
  return std::make_shared<MeasuredComm>(std::move(comm), std::move(times));
}

DataParallelTimes::DataParallelTimes(std::vector<Device> devices, const Device& output)
    : devices_(std::move(devices)), output_(output) {
  reset();
}

DataParallelTimes::Step::Step(const DataParallelTimes& times)
    : devices_(&times.devices_), output_(times.output_), begun_(mark(times.devices_[0])) {
  output_begun_ = output_ == times.devices_[0] ? begun_ : mark(output_);
}

void DataParallelTimes::Step::replicated(std::size_t replicas) {
  for (std::size_t i = 0; i < replicas; ++i) replicas_.emplace_back(mark((*devices_)[i]), Event());
}

void DataParallelTimes::Step::applied() {
  for (std::size_t i = 0; i < replicas_.size(); ++i) replicas_[i].second = mark((*devices_)[i]);
}

void DataParallelTimes::Step::gathered(std::int64_t bytes) {
  gathered_bytes_ = bytes;
  gathered_ = mark(output_);
}

bool DataParallelTimes::Step::has_passed() const {
  return have_passed(replicas_) && have_passed(reductions_) && (!gathered_ || gathered_->query());
}

void DataParallelTimes::end(Step step) {
  const std::lock_guard lock(mutex_);
  while (!under_way_.empty() && under_way_.front().has_passed()) {
    sums_.add(under_way_.front());
    under_way_.pop_front();
  }
  if (under_way_.size() > kUnderWay) under_way_.pop_front();
  ++sums_.steps;
  scattered_ += step.scattered_;
  gathered_ += step.gathered_bytes_;
  under_way_.push_back(std::move(step));
}

void DataParallelTimes::broadcast(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  broadcast_ += bytes;
}

void DataParallelTimes::reduced(std::int64_t bytes, const Event& begun) {
  const std::lock_guard lock(mutex_);
  reduced_ += bytes;
  if (!under_way_.empty()) under_way_.back().reductions_.emplace_back(begun, mark(devices_[0]));
}

void DataParallelTimes::Sums::add(const Step& step) {
  ++timed;
  const double prepared = step.replicas_[0].first.elapsed_ms(step.begun_);
  prepare += prepared;
  double longest = 0;
  for (std::size_t i = 0; i < step.replicas_.size(); ++i) {
    const double ms = step.replicas_[i].second.elapsed_ms(step.replicas_[i].first);
    replicas[i] += ms;
    longest = std::max(longest, ms);
  }
  forward += longest;
  if (step.gathered_)
    gather += std::max(0.0, step.gathered_->elapsed_ms(step.output_begun_) - prepared - longest);
  if (!step.reductions_.empty()) add(step.reductions_);
}

void DataParallelTimes::Sums::add(const std::vector<Step::Span>& reductions) {
  ++reduced;
  const Event& start = reductions[0].first;
  std::vector<std::pair<double, double>> spans;
  double last = 0;  // when the last gradients arrived
  for (const auto& [begun, ended] : reductions) {
    spans.emplace_back(begun.elapsed_ms(start), ended.elapsed_ms(start));
    last = std::max(last, spans.back().first);
  }
  const reports::Overlap step = reports::overlap(std::move(spans), last);
  reduction += step.total;
  exposed += step.exposed;
}

void DataParallelTimes::fill(DataParallelReport& report) {
  const std::lock_guard lock(mutex_);
  Sums sums = sums_;
  for (const Step& step : under_way_)
    if (step.has_passed()) sums.add(step);
  report.steps = sums.steps;
  report.timed = sums.timed;
  report.reduced = sums.reduced;
  const auto per = [](auto sum, std::int64_t count) {
    return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
  };
  report.bytes_scattered = per(scattered_, sums.steps);
  report.bytes_broadcast = per(broadcast_, sums.steps);
  report.bytes_reduced = per(reduced_, sums.steps);
  report.bytes_gathered = per(gathered_, sums.steps);
  report.scatter_replicate_ms = per(sums.prepare, sums.timed);
  report.forward_ms = per(sums.forward, sums.timed);
  for (const double ms : sums.replicas) report.device_forward_ms.push_back(per(ms, sums.timed));
  report.gather_ms = per(sums.gather, sums.timed);
  report.reduction_ms = per(sums.reduction, sums.reduced);
  report.exposed_reduction_ms = per(sums.exposed, sums.reduced);
}

void DataParallelTimes::reset() {
  const std::lock_guard lock(mutex_);
  sums_ = {};
  sums_.replicas.resize(devices_.size());
  under_way_.clear();
  scattered_ = broadcast_ = reduced_ = gathered_ = 0;
}

}  // namespace ferrite::parallel::dp
