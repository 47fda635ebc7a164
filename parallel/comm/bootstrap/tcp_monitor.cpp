#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/background_thread.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"

namespace ferrite::parallel::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Answer;
using protocol::Command;
using protocol::Reader;
using protocol::Writer;
using std::chrono::milliseconds;

constexpr std::size_t kLongestName = 512, kLongestReason = 16384;
/// blame() may take a second in total.
constexpr milliseconds kAnswerTime{900};
/// How long report_failure() waits for the report to be sent, because the process may end next.
constexpr milliseconds kReportTime{200};
constexpr milliseconds kSendTime{1000};
/// The thread wakes at every beat: a gap longer than that by this much means it was stopped.
constexpr milliseconds kPause{1000};
/// Beyond this number, groups are forgotten when they are released.
constexpr std::size_t kKeptGroups = 1024;

}  // namespace

// ---- Any thread

TcpMonitor::TcpMonitor(const links::Address& server, std::string_view token,
                       TcpMonitorOptions options)
    : options_(std::move(options)),
      server_(server),
      interval_(heartbeat_interval(options_.timeout)),
      connection_(greet_until_accepted(server, token, options_.timeout)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FERRITE_CHECK(waker_.valid(), DistributedError, "monitor", "no eventfd");
  join();
  thread_ = comm::start_background_thread("ferrite-beat", [this] { beat_until_left(); });
}

TcpMonitor::~TcpMonitor() { leave(); }

/// Returns when the server knows this rank.
void TcpMonitor::join() {
  const links::Deadline deadline = Clock::now() + std::max(options_.timeout, milliseconds(1000));
  const auto limited = [](milliseconds time) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(time.count(), std::int64_t{1} << 31));
  };
  Writer message(Command::join);
  message.text(options_.run)
      .number(static_cast<std::uint32_t>(options_.rank))
      .number(static_cast<std::uint32_t>(options_.world_size))
      .number(limited(options_.timeout))
      .number(limited(interval_))
      .text(fmt::format("{}, process {}", links::host_name(), getpid()).substr(0, kLongestName));
  constexpr std::size_t size = 5;
  Read last = links::send_all(connection_.fd, connection_.channel->seal(message.take()), deadline)
                  ? Read::nothing
                  : Read::end;
  while (in_.size() < size && (last == Read::nothing || last == Read::something) &&
         links::wait_ready(connection_.fd.get(), POLLIN, deadline))
    last = read_more();
  FERRITE_CHECK(in_.size() >= size && static_cast<Answer>(in_[4]) == Answer::joined,
                DistributedError, "monitor", "the store at {} does not take rank {} of {} in{}",
                server_.text(), options_.rank, options_.world_size,
                last == Read::changed ? ": its answer was changed on the way" : "");
  in_.erase(0, size);
  heard_ = Clock::now();
}

void TcpMonitor::begin(const std::string& group, std::uint64_t sequence, std::string_view op) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  Operation& operation = operations_[group];
  operation.sequence = sequence;
  operation.op.assign(op.substr(0, kLongestName));
  operation.running = operation.changed = true;
  operation.since = now;
}

void TcpMonitor::end(const std::string& group, std::uint64_t sequence) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto found = operations_.find(group);
  if (found == operations_.end() || found->second.sequence != sequence) return;
  found->second.running = false;
  found->second.changed = true;
  found->second.since = now;
}

void TcpMonitor::report_failure(const std::string& group, std::string_view reason) {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  outbox_ += Writer(Command::failure).text(group).text(reason.substr(0, kLongestReason)).take();
  const std::uint64_t mine = ++queued_;
  wake();
  changed_.wait_for(lock, kReportTime, [&] { return sent_ >= mine || ended_; });
}

void TcpMonitor::watch(const std::string& group, Watcher f) {
  const std::lock_guard lock(mutex_);
  // If there are no more threads, that is an error here; the heartbeat's thread has no caller.
  if (!caller_.joinable() && !stop_calls_)
    caller_ = comm::start_background_thread("ferrite-watch", [this] { run_calls(); });
  watchers_[group] = std::move(f);
  operations_[group].changed = true;  // tells others that this rank is in the group
  if (!lost_.empty()) call_watchers(&group, lost_);
}

void TcpMonitor::unwatch(const std::string& group) {
  std::unique_lock lock(mutex_);
  watchers_.erase(group);
  std::erase_if(calls_, [&](const Call& call) { return call.group == group; });
  if (operations_.size() > kKeptGroups && operations_.erase(group)) forgotten_.push_back(group);
  if (std::this_thread::get_id() == caller_.get_id()) return;
  changed_.wait(lock, [&] { return in_call_of_ != group; });
}

std::string TcpMonitor::blame(const std::string& group, std::uint64_t sequence) {
  std::unique_lock lock(mutex_);
  const auto known = [&]() -> const std::string& { return lost_.empty() ? server_gone_ : lost_; };
  if (ended_ || !known().empty()) return known();
  const std::uint32_t id = next_question_++;
  answers_[id];
  outbox_ += Writer(Command::blame).number(id).text(group).number(sequence).take();
  ++queued_;
  wake();
  changed_.wait_for(lock, kAnswerTime, [&] { return answers_[id] || ended_ || !known().empty(); });
  const std::optional<std::string> answer = std::move(answers_[id]);
  answers_.erase(id);
  if (answer && !answer->empty()) return *answer;
  if (answer || !known().empty()) return known();
  return silence_text(Clock::now());
}

void TcpMonitor::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(mutex_);
    stop_calls_ = true;
    calls_.clear();
    changed_.notify_all();
  }
  // A watcher may call leave(), but then the destructor joins the thread.
  if (caller_.joinable() && caller_.get_id() != std::this_thread::get_id()) caller_.join();
}

void TcpMonitor::wake() {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the thread is awake.
  [[maybe_unused]] const ssize_t written = write(waker_.get(), &one, sizeof one);
}

// ---- The heartbeat thread

void TcpMonitor::beat_until_left() {
  auto next = Clock::now();
  for (;;) {
    auto now = Clock::now();
    bool due = now >= next;
    {
      const std::lock_guard lock(mutex_);
      due = due || std::exchange(report_now_, false);
      if (due) {
        outbox_ += beat(now);
        ++queued_;
        if (!unanswered_since_) unanswered_since_ = now;
        next = now + interval_;
      }
    }
    if (!send_due(now)) {
      // The server's last message is more informative than the fact that it has gone.
      if (receive()) lose_server("stopped answering");
      break;
    }
    if (left_) break;

    const int wait = static_cast<int>(
        std::max<std::int64_t>(std::chrono::ceil<milliseconds>(next - now).count(), 0));
    std::array<pollfd, 2> waiting{{{connection_.fd.get(), POLLIN, 0}, {waker_.get(), POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), wait);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(waker_.get(), &count, sizeof count);

    const auto pause = Clock::now() - now - milliseconds(wait);
    if (!receive()) break;
    const std::lock_guard lock(mutex_);
    if (pause > kPause && unanswered_since_) *unanswered_since_ += pause;
    if (!server_gone_.empty()) break;
    check_silence(Clock::now());
    if (!server_gone_.empty()) break;
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  shutdown(connection_.fd.get(), SHUT_RDWR);
  changed_.notify_all();
}

/// False if the server does not accept it.
bool TcpMonitor::send_due(Clock::time_point now) {
  std::string bytes;
  std::uint64_t upto = 0;
  bool leaving = false;
  {
    const std::lock_guard lock(mutex_);
    leaving = leaving_;
    if (leaving) outbox_ += beat(now) + Writer(Command::leave).take();
    bytes.swap(outbox_);
    upto = queued_;
  }
  const bool sent =
      links::send_all(connection_.fd, connection_.channel->seal(bytes), now + kSendTime);
  left_ = leaving;
  const std::lock_guard lock(mutex_);
  sent_ = upto;
  changed_.notify_all();
  return sent || leaving;
}

std::string TcpMonitor::beat(Clock::time_point now) {
  Writer message(Command::beat);
  const auto changed = std::count_if(operations_.begin(), operations_.end(),
                                     [](const auto& entry) { return entry.second.changed; });
  message.number(static_cast<std::uint32_t>(changed + std::ssize(forgotten_)));
  const auto report = [&](const std::string& group, bool known, const Operation& operation) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(now - operation.since);
    message.text(std::string_view(group).substr(0, kLongestName))
        .number(static_cast<std::uint8_t>(known))
        .number(operation.sequence)
        .text(operation.op)
        .number(static_cast<std::uint8_t>(operation.running))
        .number(static_cast<std::uint64_t>(std::max<std::int64_t>(age.count(), 0)));
  };
  for (auto& [group, operation] : operations_) {
    if (std::exchange(operation.changed, false)) report(group, true, operation);
  }
  for (const std::string& group : forgotten_) report(group, false, {});
  forgotten_.clear();
  return message.take();
}

TcpMonitor::Read TcpMonitor::read_more() {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::recv(connection_.fd.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::nothing;
    if (got <= 0) return Read::end;
    const std::string_view arrived(buffer.data(), static_cast<std::size_t>(got));
    return connection_.channel->open(arrived, in_) ? Read::something : Read::changed;
  }
}

bool TcpMonitor::receive() {
  for (;;) {
    Read last = read_more();
    std::size_t at = 0;
    while (in_.size() - at >= 4) {
      const std::size_t size = protocol::message_size(std::string_view(in_).substr(at));
      if (size > protocol::kMaxMessage) last = Read::changed;
      if (in_.size() - at - 4 < size) break;
      handle(std::string_view(in_).substr(at + 4, size));
      at += 4 + size;
    }
    in_.erase(0, at);
    if (last == Read::nothing) return true;
    if (last == Read::something) continue;
    lose_server(last == Read::end
                    ? "was lost"
                    : "cannot be heard: what comes from it was changed, left out or repeated on "
                      "the way");
    return false;
  }
}

void TcpMonitor::handle(std::string_view bytes) {
  Reader message(bytes);
  const auto answer = message.number<Answer>();
  const std::lock_guard lock(mutex_);
  heard_ = Clock::now();
  unanswered_since_.reset();
  if (answer == Answer::lost) {
    const std::string reason(message.text(2 * kLongestReason));
    if (lost_.empty()) lost_ = reason;
    call_watchers(nullptr, lost_);
  } else if (answer == Answer::failed) {
    const std::string group(message.text(kLongestName));
    call_watchers(&group, std::string(message.text(kLongestReason)));
  } else if (answer == Answer::blamed) {
    const auto found = answers_.find(message.number<std::uint32_t>());
    if (found != answers_.end()) found->second = message.text(2 * kLongestReason);
  } else if (answer == Answer::report) {
    report_now_ = true;
  } else if (answer == Answer::closing) {
    server_gone_ = fmt::format("{}, which served the store at {}, has left the job",
                               options_.server_owner, server_.text());
  }
  changed_.notify_all();
}

std::string TcpMonitor::silence_text(Clock::time_point now) const {
  if (!unanswered_since_ || now - *unanswered_since_ < interval_) return {};
  return fmt::format("{}, which serves the store at {}, stopped answering {:.1f} s ago",
                     options_.server_owner, server_.text(),
                     std::chrono::duration<double>(now - heard_).count());
}

void TcpMonitor::check_silence(Clock::time_point now) {
  if (!unanswered_since_ || now - *unanswered_since_ < options_.timeout) return;
  server_gone_ = silence_text(now);
  if (lost_.empty()) lost_ = server_gone_;
  call_watchers(nullptr, lost_);
}

void TcpMonitor::lose_server(const std::string& how) {
  const std::lock_guard lock(mutex_);
  if (!server_gone_.empty()) return;  // it announced that it would end
  server_gone_ = fmt::format("{}, which serves the store at {}, {}", options_.server_owner,
                             server_.text(), how);
  if (lost_.empty()) lost_ = server_gone_;
  call_watchers(nullptr, lost_);
  changed_.notify_all();
}

// ---- Watchers may take long, so a separate thread calls them

void TcpMonitor::call_watchers(const std::string* group, const std::string& reason) {
  for (auto watcher = watchers_.begin(); watcher != watchers_.end();) {
    if (group && watcher->first != *group) {
      ++watcher;
      continue;
    }
    calls_.push_back({watcher->first, reason, std::move(watcher->second)});
    watcher = watchers_.erase(watcher);
  }
  if (calls_.empty() || stop_calls_) return;
  changed_.notify_all();
}

void TcpMonitor::run_calls() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_calls_ || !calls_.empty(); });
    if (stop_calls_) return;
    Call call = std::move(calls_.front());
    calls_.pop_front();
    in_call_of_ = call.group;
    lock.unlock();
    try {
      call.f(call.reason);
    } catch (const std::exception&) {
      // No one is left to be told.
    }
    call.f = nullptr;
    lock.lock();
    in_call_of_.clear();
    changed_.notify_all();
  }
}

milliseconds TcpMonitor::heartbeat_interval(milliseconds timeout) {
  return std::clamp(timeout / 8, milliseconds(20), milliseconds(500));
}

}  // namespace ferrite::parallel::bootstrap
