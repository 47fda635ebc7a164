#include "parallel/data_parallel/data_parallel_timing.h"

#include <algorithm>

namespace ferrite::parallel {

namespace {

/// Steps that have not ended on their devices yet; older ones are not timed.
constexpr std::size_t kUnderWay = 16;

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
    auto result = comm_->broadcast(tensors);
    times_->broadcast(comm_->bytes_broadcast() - bytes_broadcast_);
    bytes_broadcast_ = comm_->bytes_broadcast();
    return result;
  }
  std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts, int first) override {
    times_->begin_reduction();
    auto result = comm_->reduce_add(parts, first);
    times_->end_reduction(comm_->bytes_reduced() - bytes_reduced_);
    bytes_reduced_ = comm_->bytes_reduced();
    return result;
  }

 private:
  const std::shared_ptr<DeviceComm> comm_;
  const std::shared_ptr<DataParallelTimes> times_;
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

void DataParallelTimes::begin() {
  const std::lock_guard lock(mutex_);
  while (!ended_.empty() && ended_.front().has_passed()) {
    sums_.add(ended_.front());
    ended_.pop_front();
  }
  if (ended_.size() > kUnderWay) ended_.pop_front();
  current_.emplace();
  current_->begun = mark(devices_[0]);
  current_->output_begun = output_ == devices_[0] ? current_->begun : mark(output_);
}

void DataParallelTimes::scattered(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  scattered_ += bytes;
}

void DataParallelTimes::replicated(std::size_t replicas) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < replicas; ++i)
    current_->replicas.emplace_back(mark(devices_[i]), Event());
  current_->prepared = current_->replicas[0].first;
}

void DataParallelTimes::applied() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < current_->replicas.size(); ++i)
    current_->replicas[i].second = mark(devices_[i]);
}

void DataParallelTimes::gathered(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  gathered_ += bytes;
  current_->ended = mark(output_);
}

void DataParallelTimes::end() {
  const std::lock_guard lock(mutex_);
  ++sums_.steps;
  ended_.push_back(std::move(*current_));
  current_.reset();
}

void DataParallelTimes::broadcast(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  broadcast_ += bytes;
}

void DataParallelTimes::begin_reduction() {
  const std::lock_guard lock(mutex_);
  reduction_begun_ = mark(devices_[0]);
}

void DataParallelTimes::end_reduction(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  reduced_ += bytes;
  if (!ended_.empty() && reduction_begun_)
    ended_.back().reductions.emplace_back(*reduction_begun_, mark(devices_[0]));
  reduction_begun_.reset();
}

bool DataParallelTimes::Step::has_passed() const {
  return have_passed(replicas) && have_passed(reductions) && (!ended || ended->query());
}

void DataParallelTimes::Sums::add(const Step& step) {
  ++timed;
  const double prepared = step.prepared.elapsed_ms(step.begun);
  prepare += prepared;
  double longest = 0;
  for (std::size_t i = 0; i < step.replicas.size(); ++i) {
    const double ms = step.replicas[i].second.elapsed_ms(step.replicas[i].first);
    replicas[i] += ms;
    longest = std::max(longest, ms);
  }
  forward += longest;
  if (step.ended)
    gather += std::max(0.0, step.ended->elapsed_ms(step.output_begun) - prepared - longest);
  if (step.reductions.empty()) return;
  ++reduced;
  const Event& start = step.reductions[0].first;
  double counted = 0, last = 0;  // up to here; when the last gradients were there
  for (const auto& span : step.reductions) last = std::max(last, span.first.elapsed_ms(start));
  for (const auto& [begun, ended] : step.reductions) {
    const double from = std::max(begun.elapsed_ms(start), counted), to = ended.elapsed_ms(start);
    if (to <= from) continue;
    reduction += to - from;
    exposed += std::max(to, last) - std::max(from, last);
    counted = to;
  }
}

void DataParallelTimes::fill(DataParallelReport& report) {
  const std::lock_guard lock(mutex_);
  Sums sums = sums_;
  for (const Step& step : ended_)
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
  ended_.clear();
  scattered_ = broadcast_ = reduced_ = gathered_ = 0;
}

}  // namespace ferrite::parallel
