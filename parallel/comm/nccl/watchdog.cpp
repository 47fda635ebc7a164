#include "ferrite/parallel/comm/nccl/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"

namespace ferrite::parallel::nccl {

Watchdog::Watchdog(const GroupContext& context, const Device& device, Communicator& communicator,
                   std::shared_ptr<Failure> failure, std::function<void(const std::string&)> abort)
    : context_(context),
      device_(device),
      communicator_(communicator),
      failure_(std::move(failure)),
      abort_(std::move(abort)),
      inbox_(std::make_shared<Inbox>()) {
  if (context_.monitor)
    context_.monitor->watch(context_.name,
                            [failure = failure_, inbox = inbox_](const std::string& reason) {
                              failure->set(reason, Failure::From::others);
                              const std::lock_guard lock(inbox->mutex);
                              inbox->woken = true;
                              inbox->changed.notify_all();
                            });
  thread_ = std::thread([this] { run(); });
}

void Watchdog::stop() {
  if (!thread_.joinable()) return;
  if (context_.monitor) context_.monitor->unwatch(context_.name);
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->stop = true;
    inbox_->changed.notify_all();
  }
  thread_.join();
}

void Watchdog::settle() {
  std::ranges::move(std::exchange(inbox_->arrived, {}), std::back_inserter(underway_));
  for (; !underway_.empty() && underway_.front()->end->passed(); underway_.pop_front())
    if (!failure_->is_set()) underway_.front()->ended = true;
}

void Watchdog::add(std::shared_ptr<Operation> operation) {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->arrived.push_back(std::move(operation));
}

void Watchdog::wake() {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->woken = true;
  inbox_->changed.notify_all();
}

std::string Watchdog::blame(const Operation& operation, std::string_view what_happened) const {
  std::string who;
  if (context_.monitor) who = context_.monitor->blame(context_.name, operation.sequence);
  return fmt::format(
      "{}, number {} of group {}, {} on rank {}: {}", operation.what, operation.sequence,
      context_.name, what_happened, context_.job_rank(context_.rank),
      who.empty() ? "another rank was lost, is late, or has called something else" : who);
}

void Watchdog::run() {
  const cuda::BackgroundWaits not_the_training;
  const auto interval = std::clamp(context_.timeout / 10, std::chrono::milliseconds(1),
                                   std::chrono::milliseconds(100));
  std::unique_lock lock(inbox_->mutex);
  while (!inbox_->stop) {
    inbox_->changed.wait_for(lock, interval, [&] { return inbox_->stop || inbox_->woken; });
    inbox_->woken = false;
    std::ranges::move(inbox_->arrived, std::back_inserter(underway_));
    inbox_->arrived.clear();
    lock.unlock();
    if (!failed_) look();
    if (failure_->is_set() && !failed_) fail();
    lock.lock();
  }
}

void Watchdog::look() {
  if (failure_->is_set()) return;
  if (const std::string error = communicator_.async_error(); !error.empty()) {
    failure_->set(underway_.empty() ? fmt::format("{} (group {})", error, context_.name)
                                    : blame(*underway_.front(), "failed") + " (" + error + ")");
    return;
  }
  std::uint64_t last = 0;
  while (!underway_.empty() && underway_.front()->end->passed()) {
    // Aborted ones pass their mark as well.
    if (failure_->is_set()) return;
    underway_.front()->ended = true;
    last = underway_.front()->sequence;
    underway_.pop_front();
  }
  if (last && context_.monitor) context_.monitor->end(context_.name, last);
  if (underway_.empty()) return;
  // Until it begins it waits for this rank's own work.
  Operation& front = *underway_.front();
  const auto now = Clock::now();
  if (!front.seen && front.begin->passed()) front.seen = now;
  if (front.seen && now - *front.seen >= context_.timeout)
    failure_->set(
        blame(front, fmt::format("has not ended within {:.1f} s",
                                 std::chrono::duration<double>(context_.timeout).count())));
}

void Watchdog::fail() {
  failed_ = true;
  abort_(failure_->reason());
  if (context_.monitor && failure_->from() == Failure::From::here)
    context_.monitor->report_failure(context_.name, failure_->reason());
  try {
    const cuda::DeviceGuard guard(device_);
    communicator_.abort();
  } catch (const Error&) {  // the device is lost, with all its work
  }
  underway_.clear();
}

}  // namespace ferrite::parallel::nccl
