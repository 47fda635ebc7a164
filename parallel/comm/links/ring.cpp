#include "ferrite/parallel/comm/links/ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "ferrite/core/error.h"

namespace ferrite::parallel::links {

namespace {

// The largest page size: for the counters shared by the ends.
constexpr std::size_t kControl = std::size_t{64} << 10;
constexpr std::size_t file_bytes(std::size_t rings) {
  return kControl + rings * RingMemory::kCapacity;
}
constexpr std::size_t mapped_bytes(std::size_t rings) {
  return kControl + 2 * rings * RingMemory::kCapacity;
}
// Neither end can shrink what the other has mapped.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// A sleeping sender is woken for this much room, not for every byte.
constexpr std::size_t kWorthWaking = RingMemory::kCapacity / 4;
// At most so much is copied before the other end learns of it: both ends then copy at once.
constexpr std::size_t kPiece = RingMemory::kCapacity / 4;

static_assert(2 * sizeof(RingMemory::Direction) <= kControl);
static_assert((RingMemory::kCapacity & (RingMemory::kCapacity - 1)) == 0);
static_assert(RingMemory::kCapacity % kControl == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

[[noreturn]] void fail_memory(const char* what) {
  fail<DistributedError>("link", "{}: {}", what,
                         std::generic_category().default_error_condition(errno).message());
}

}  // namespace

std::shared_ptr<RingMemory> RingMemory::create(int rings) {
  const auto count = static_cast<std::size_t>(rings);
  Fd fd(memfd_create("ferrite link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) fail_memory("the system has no memory to share");
  // Reserved now: missing memory would later cause a SIGBUS.
  int error = 0;
  do error = posix_fallocate(fd.get(), 0, static_cast<off_t>(file_bytes(count)));
  while (error == EINTR);
  if (error != 0) {
    errno = error;
    fail_memory("the system has no memory to share");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) < 0) fail_memory("sealing shared memory failed");
  const std::shared_ptr<RingMemory> memory(new RingMemory(std::move(fd), count));
  memory->map();
  return memory;
}

std::shared_ptr<RingMemory> RingMemory::open(Fd fd) {
  struct stat status {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  FERRITE_CHECK(fstat(fd.get(), &status) == 0 &&
                    status.st_size == static_cast<off_t>(file_bytes(1)) && seals >= 0 &&
                    (seals & kSeals) == kSeals,
                DistributedError, "link", "expected shared memory of a link, got something else");
  const std::shared_ptr<RingMemory> memory(new RingMemory(std::move(fd), 1));
  memory->map();
  return memory;
}

RingMemory::~RingMemory() {
  if (base_) munmap(base_, mapped_bytes(rings_));
}

void RingMemory::map() {
  void* const reserved = mmap(nullptr, mapped_bytes(rings_), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) fail_memory("mapping shared memory failed");
  base_ = static_cast<std::byte*>(reserved);
  const auto place = [&](std::size_t at, std::size_t from, std::size_t size) {
    if (mmap(base_ + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(),
             static_cast<off_t>(from)) == MAP_FAILED)
      fail_memory("mapping shared memory failed");
  };
  place(0, 0, kControl);
  for (std::size_t ring = 0; ring < rings_; ++ring)
    for (std::size_t copy = 0; copy < 2; ++copy)
      place(kControl + (2 * ring + copy) * kCapacity, kControl + ring * kCapacity, kCapacity);
}

RingMemory::Direction& RingMemory::direction(int which) const {
  return reinterpret_cast<Direction*>(base_)[which];
}

std::byte* RingMemory::bytes(int which) const {
  return base_ + kControl + static_cast<std::size_t>(which) * 2 * kCapacity;
}

RingLink::RingLink(std::shared_ptr<RingMemory> memory, int end, Fd socket, std::string peer,
                   std::string_view kind)
    : memory_(std::move(memory)),
      out_(memory_->direction(end)),
      in_(memory_->direction(1 - end)),
      out_bytes_(memory_->bytes(end)),
      in_bytes_(memory_->bytes(1 - end)),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      kind_(kind) {}

RingLink::~RingLink() { RingLink::close(); }

void RingLink::close() {
  closed_.store(true, std::memory_order_release);
  out_.closed.store(1, std::memory_order_release);
  in_.closed.store(1, std::memory_order_release);
  shutdown(socket_.get(), SHUT_RDWR);  // wakes both ends
}

bool RingLink::is_over() const {
  return peer_gone_ || out_.closed.load(std::memory_order_acquire) != 0;
}

void RingLink::fail_lost() const {
  if (closed_.load(std::memory_order_acquire))
    fail<DistributedError>("link", "the link to {} was closed", peer_);
  fail<DistributedError>("link", "{} has closed its link ({}), or has died", peer_, kind_);
}

std::size_t RingLink::room() const {
  return RingMemory::kCapacity - static_cast<std::size_t>(written_ - read_by_peer_);
}

std::size_t RingLink::try_send(std::span<const std::byte> bytes) {
  if (is_over()) fail_lost();
  if (room() < bytes.size()) {
    read_by_peer_ = out_.read.load(std::memory_order_acquire);
    if (room() > RingMemory::kCapacity) fail_lost();  // not a value that we would have written
  }
  const std::size_t n = std::min({room(), bytes.size(), kPiece});
  if (n == 0) return 0;
  std::memcpy(out_bytes_ + written_ % RingMemory::kCapacity, bytes.data(), n);
  written_ += n;
  // Ordered before the check for a sleeper, like the sleeper's flag before its last check.
  out_.written.store(written_, std::memory_order_seq_cst);
  if (out_.receiver_sleeps.load(std::memory_order_seq_cst) != 0 &&
      out_.receiver_sleeps.exchange(0, std::memory_order_relaxed) != 0)
    ring_bell();
  return n;
}

void RingLink::look_for_more() {
  written_by_peer_ = in_.written.load(std::memory_order_acquire);
  if (written_by_peer_ - read_ > RingMemory::kCapacity) fail_lost();
}

std::span<const std::byte> RingLink::received() {
  if (closed_.load(std::memory_order_acquire)) fail_lost();
  const bool over = is_over();  // checked first: data written before the end is then visible
  look_for_more();
  const auto n = static_cast<std::size_t>(written_by_peer_ - read_);
  if (n == 0 && over) fail_lost();
  return {in_bytes_ + read_ % RingMemory::kCapacity, n};
}

std::size_t RingLink::try_recv(std::span<std::byte> bytes) {
  return Link::try_recv(bytes.first(std::min(bytes.size(), kPiece)));
}

void RingLink::consume(std::size_t bytes) {
  read_ += bytes;
  in_.read.store(read_, std::memory_order_seq_cst);
  if (in_.sender_sleeps.load(std::memory_order_seq_cst) == 0) return;
  const auto used = static_cast<std::size_t>(written_by_peer_ - read_);
  if (RingMemory::kCapacity - used < kWorthWaking) return;
  if (in_.sender_sleeps.exchange(0, std::memory_order_relaxed) != 0) ring_bell();
}

bool RingLink::ready(const Interest& interest) {
  if (interest.send) {
    if (is_over()) fail_lost();
    read_by_peer_ = out_.read.load(std::memory_order_seq_cst);
    if (room() >= kWorthWaking) return true;
  }
  if (interest.recv) {
    const bool over = is_over();
    written_by_peer_ = in_.written.load(std::memory_order_seq_cst);
    if (written_by_peer_ - read_ > interest.have) return true;
    if (over) fail_lost();
  }
  return false;
}

Link::PollRequest RingLink::arm(const Interest& interest) {
  armed_send_ = interest.send;
  armed_recv_ = interest.recv;
  if (armed_send_) out_.sender_sleeps.store(1, std::memory_order_seq_cst);
  if (armed_recv_) in_.receiver_sleeps.store(1, std::memory_order_seq_cst);
  PollRequest request;
  request.fds[0] = {socket_.get(), POLLIN, 0};
  return request;
}

void RingLink::disarm(const PollRequest& request) {
  if (armed_send_) out_.sender_sleeps.store(0, std::memory_order_relaxed);
  if (armed_recv_) in_.receiver_sleeps.store(0, std::memory_order_relaxed);
  armed_send_ = armed_recv_ = false;
  if (request.fds[0].revents == 0) return;
  std::array<char, 64> bells;
  const ssize_t n = ::recv(socket_.get(), bells.data(), bells.size(), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) peer_gone_ = true;
}

void RingLink::ring_bell() const {
  const char bell = 0;
  // If there is no room for it, the peer has not read earlier ones yet.
  (void)!::send(socket_.get(), &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace ferrite::parallel::links
