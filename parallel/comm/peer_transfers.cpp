#include "ferrite/parallel/comm/peer_transfers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/device_access.h"

namespace ferrite::parallel::comm {

namespace {
using Clock = std::chrono::steady_clock;
}

/// State that a Work may need after its owner is gone.
struct PeerTransfers::Shared {
  std::mutex mutex;
  std::condition_variable ended, submitted;
  std::vector<std::shared_ptr<Transfer>> fresh;  // not seen by the thread yet
  std::vector<std::uint64_t> sent, received;     // numbers, by peer
  std::size_t open = 0;                          // neither ended nor failed
  bool stopping = false;
  std::string reason;
  std::atomic<bool> aborted{false};
  // The counter changes with everything the thread must look at; the changer wakes the thread if it
  // sleeps.
  std::atomic<std::uint64_t> news{0};
  std::atomic<bool> asleep{false};
};

class PeerTransfers::Transfer final : public detail::WorkState {
 public:
  Transfer(std::shared_ptr<Shared> shared, Call call)
      : shared(std::move(shared)), call(std::move(call)) {
    before = QueuedWork(tensor().device(), name(this->call.kind));
  }

  const Tensor& tensor() const { return call.in.defined() ? call.in : call.out; }
  bool done() override { return done_.load(std::memory_order_acquire); }
  void wait() override {
    Backoff backoff;
    while (!done() && !backoff.patient()) backoff.pause();
    if (!done()) {
      std::unique_lock lock(shared->mutex);
      shared->ended.wait(lock, [this] { return done(); });
    }
    if (!error.empty()) throw DistributedError(error);
  }
  std::optional<std::pair<Clock::time_point, Clock::time_point>> ran() override {
    if (!done() || !error.empty()) return std::nullopt;
    return std::pair(began, ended);
  }
  void finish(std::string why = "") {
    {
      std::lock_guard lock(shared->mutex);
      error = std::move(why);
      ended = Clock::now();
      done_.store(true, std::memory_order_release);
      --shared->open;
    }
    shared->ended.notify_all();
    call.in = call.out = Tensor();
    memory = {};
    before = {};
  }

  enum class Stage : std::uint8_t { waiting, header, payload };

  const std::shared_ptr<Shared> shared;
  Call call;
  std::uint64_t number = 0;
  QueuedWork before;
  // Used by the thread only.
  Stage stage = Stage::waiting;
  StagedTensor memory;
  Signature header;
  std::size_t moved = 0, bytes = 0;  // of the payload
  Clock::time_point deadline;
  // Written before done_.
  std::string error;
  Clock::time_point began, ended;
  std::atomic<bool> done_{false};
};

PeerTransfers::PeerTransfers(std::unique_ptr<links::LinkMesh> links, int rank,
                             std::vector<int> names, std::chrono::milliseconds timeout,
                             HostOperations& owner)
    : rank_(rank),
      names_(std::move(names)),
      timeout_(timeout),
      owner_(owner),
      links_(std::move(links)),
      shared_(std::make_shared<Shared>()),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sends_(names_.size()),
      recvs_(names_.size()) {
  FERRITE_CHECK(wake_fd_ >= 0, DistributedError, "process_group",
                "the system has no more file descriptors");
  shared_->sent.resize(names_.size());
  shared_->received.resize(names_.size());
}

PeerTransfers::~PeerTransfers() {
  stop();
  close(wake_fd_);
}

Work PeerTransfers::submit(Call call) {
  const auto peer = static_cast<std::size_t>(call.peer);
  const bool sends = call.kind == Collective::send;
  auto transfer = std::make_shared<Transfer>(shared_, std::move(call));
  {
    std::lock_guard lock(shared_->mutex);
    const char* const op = name(transfer->call.kind);
    FERRITE_CHECK(!shared_->aborted, DistributedError, op, "the group was aborted: {}",
                  shared_->reason);
    FERRITE_CHECK(!shared_->stopping, DistributedError, op, "the group is gone");
    transfer->number = ++(sends ? shared_->sent : shared_->received)[peer];
    shared_->fresh.push_back(transfer);
    ++shared_->open;
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  }
  wake();
  return Work(std::move(transfer));
}

void PeerTransfers::abort(const std::string& reason) {
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->aborted) return;
    shared_->reason = reason;
    shared_->aborted = true;
  }
  wake();  // the thread fails them all
  links_->close();
}

void PeerTransfers::stop() {
  std::thread thread;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    thread = std::move(thread_);
  }
  wake();
  if (thread.joinable()) thread.join();
}

void PeerTransfers::wake() {
  shared_->news.fetch_add(1, std::memory_order_seq_cst);
  shared_->submitted.notify_one();
  if (!shared_->asleep.load(std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_fd_, &one, sizeof(one));  // a full counter is
                                                                             // fine
}

void PeerTransfers::serve() {
  Backoff backoff;
  for (;;) {
    const std::uint64_t seen = shared_->news.load(std::memory_order_seq_cst);
    {
      std::unique_lock lock(shared_->mutex);
      Shared& s = *shared_;
      s.submitted.wait(lock, [&] { return s.open > 0 || s.stopping; });
      if (s.open == 0) return;
      if (!s.fresh.empty()) backoff.reset();
      for (auto& transfer : std::exchange(s.fresh, {})) {
        const auto peer = static_cast<std::size_t>(transfer->call.peer);
        const bool sends = transfer->call.kind == Collective::send;
        (sends ? sends_ : recvs_)[peer].push_back(std::move(transfer));
      }
    }
    if (shared_->aborted)
      fail_all(shared_->reason);
    else if (advance_all())
      backoff.reset();
    else if (!backoff.patient())
      backoff.pause();
    else
      sleep(seen);
  }
}

/// Until a link can move data, or there is something new.
void PeerTransfers::sleep(std::uint64_t seen) {
  auto until = Clock::now() + std::chrono::milliseconds(500);
  const std::vector<links::Wait> waits = interests(until);
  std::vector<links::Link::PollRequest> requests;
  std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
  shared_->asleep.store(true, std::memory_order_seq_cst);
  bool ready = shared_->news.load(std::memory_order_seq_cst) != seen;
  for (const links::Wait& wait : waits) {
    requests.push_back(wait.link->arm(wait.interest));
    fds.insert(fds.end(), requests.back().fds.begin(), requests.back().fds.end());
    until = std::min(until, requests.back().until);
  }
  try {
    for (const links::Wait& wait : waits) ready |= wait.link->ready(wait.interest);
  } catch (const Error&) {  // the other end has gone; the next use of the link reports it
    ready = true;
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
  if (!ready && left.count() > 0) {
    const timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    if (ppoll(fds.data(), fds.size(), &time, nullptr) <= 0)
      for (pollfd& fd : fds) fd.revents = 0;
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    std::copy_n(fds.begin() + 1 + 2 * static_cast<std::ptrdiff_t>(i), 2, requests[i].fds.begin());
    waits[i].link->disarm(requests[i]);
  }
  shared_->asleep.store(false, std::memory_order_seq_cst);
  std::uint64_t count = 0;
  if (fds[0].revents == 0) return;
  [[maybe_unused]] const auto drained = read(wake_fd_, &count, sizeof(count));
}

/// The waits of the first transfer in each queue; lowers `until` to the next time they must be
/// checked.
std::vector<links::Wait> PeerTransfers::interests(Clock::time_point& until) {
  std::vector<links::Wait> waits;
  for (int peer = 0; peer < static_cast<int>(sends_.size()); ++peer) {
    links::Link::Interest interest;
    for (const auto* queues : {&sends_, &recvs_}) {
      const Queue& queue = (*queues)[static_cast<std::size_t>(peer)];
      if (queue.empty()) continue;
      const Transfer& first = *queue.front();
      until = std::min(until, first.deadline);
      if (first.stage == Transfer::Stage::waiting)  // for its device, which gives no notification
        until = std::min(until, Clock::now() + std::chrono::microseconds(200));
      else
        (queues == &sends_ ? interest.send : interest.recv) = true;
    }
    if (interest.send || interest.recv) waits.push_back({&links_->to(peer), interest});
  }
  return waits;
}

/// Whether anything moved.
bool PeerTransfers::advance_all() {
  bool moved = false;
  for (int peer = 0; peer < static_cast<int>(sends_.size()); ++peer) {
    moved |= advance_first(sends_, peer);
    moved |= advance_first(recvs_, peer);
  }
  return moved;
}

bool PeerTransfers::advance_first(std::vector<Queue>& queues, int peer) {
  Queue& queue = queues[static_cast<std::size_t>(peer)];
  if (queue.empty()) return false;
  const std::shared_ptr<Transfer> transfer = queue.front();
  std::string error;
  bool moved = true;
  try {
    moved = advance(*transfer, peer);
    if (transfer->stage == Transfer::Stage::payload && transfer->moved == transfer->bytes) {
      const links::Interrupt interrupt{name(transfer->call.kind), shared_->aborted,
                                       transfer->deadline};
      if (transfer->call.kind == Collective::recv) transfer->memory.put_back(interrupt);
      queue.pop_front();
      transfer->finish();
    }
  } catch (const std::exception& e) {
    error = *e.what() ? e.what() : "failed";
  } catch (...) {
    error = "failed";
  }
  if (error.empty()) return moved;
  queue.pop_front();
  try {
    error = owner_.failed(transfer->call, transfer->number, error);
  } catch (const std::exception&) {  // without memory for the message: the cause must do
  }
  transfer->finish(std::move(error));
  return true;
}

bool PeerTransfers::advance(Transfer& t, int peer) {
  using Stage = Transfer::Stage;
  if (t.deadline == Clock::time_point()) {
    t.began = Clock::now();
    t.deadline = t.began + timeout_;
  }
  const links::Interrupt interrupt{name(t.call.kind), shared_->aborted, t.deadline};
  if (t.stage == Stage::waiting) {
    if (t.before.done()) {
      t.header = signature(t.call, t.number);
      t.memory = StagedTensor(t.tensor());
      t.bytes = t.tensor().nbytes();
      if (t.call.kind == Collective::send) t.memory.fetch(interrupt);
      t.stage = Stage::header;
    }
  }
  const bool moved = t.stage != Stage::waiting &&
                     (t.call.kind == Collective::send ? advance_send(t, links_->to(peer))
                                                      : advance_recv(t, links_->to(peer)));
  if (!moved && Clock::now() > t.deadline)
    fail<DistributedError>(name(t.call.kind),
                           "rank {} did not {} it within {} ms ({} of {} bytes have passed)",
                           name_of(peer), t.call.kind == Collective::send ? "take" : "send",
                           timeout_.count(), t.moved, t.bytes);
  return moved;
}

bool PeerTransfers::advance_send(Transfer& t, links::Link& link) {
  const auto* payload = static_cast<const std::byte*>(t.memory.data());
  const auto header = std::as_bytes(std::span(&t.header, 1));
  if (t.stage == Transfer::Stage::header) {
    const std::size_t sent = link.try_send(header.subspan(t.moved));
    t.moved += sent;
    if (t.moved < header.size()) return sent > 0;
    t.stage = Transfer::Stage::payload;
    t.moved = 0;
    return true;
  }
  const std::size_t sent = link.try_send(std::span(payload + t.moved, t.bytes - t.moved));
  t.moved += sent;
  return sent > 0;
}

bool PeerTransfers::advance_recv(Transfer& t, links::Link& link) {
  const std::span<const std::byte> arrived = link.received();
  if (arrived.empty()) return false;
  if (t.stage == Transfer::Stage::header) {
    Signature& sent = t.header;  // the expected header, until all of it has arrived
    if (t.moved == 0) sent = {};
    const std::size_t n = std::min(arrived.size(), sizeof(sent) - t.moved);
    std::memcpy(reinterpret_cast<std::byte*>(&sent) + t.moved, arrived.data(), n);
    link.consume(n);
    t.moved += n;
    if (t.moved < sizeof(sent)) return true;
    const Signature mine = signature(t.call, t.number);
    Signature expected = mine;
    expected.kind = Collective::send;
    expected.peer = rank_;
    FERRITE_CHECK(sent == expected, DistributedError, "recv",
                  "the ranks disagree: rank {} called {} (its number {} to this rank), and this "
                  "rank {}",
                  name_of(t.call.peer), describe(sent, names_), sent.sequence,
                  describe(mine, names_));
    t.stage = Transfer::Stage::payload;
    t.moved = 0;
    return true;
  }
  const std::size_t n = std::min(arrived.size(), t.bytes - t.moved);
  std::memcpy(static_cast<std::byte*>(t.memory.data()) + t.moved, arrived.data(), n);
  link.consume(n);
  t.moved += n;
  return true;
}

void PeerTransfers::fail_all(const std::string& reason) {
  for (auto* queues : {&sends_, &recvs_}) {
    for (Queue& queue : *queues) {
      for (; !queue.empty(); queue.pop_front()) {
        const char* const op = name(queue.front()->call.kind);
        queue.front()->finish(fmt::format("[{}] the group was aborted: {}", op, reason));
      }
    }
  }
}

}  // namespace ferrite::parallel::comm
