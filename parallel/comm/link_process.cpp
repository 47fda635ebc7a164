// Links between processes. Each rank listens, and says in the store where. A link connects when it
// is first used: the lower rank of the two opens the connection, and the other one, if it is the
// first to need it, knocks, so that it hears when the process it waits for has gone.
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/link.h"
#include "parallel/comm/link_card.h"
#include "parallel/comm/link_delay.h"
#include "parallel/comm/link_door.h"
#include "parallel/comm/link_ring.h"
#include "parallel/comm/link_tcp.h"

namespace ferrite::parallel {

namespace {

using Clock = std::chrono::steady_clock;

// How soon a link asks again for what tells nobody when it has happened.
constexpr auto kRetry = std::chrono::milliseconds(5);
constexpr auto kLookAgain = std::chrono::milliseconds(100);

/// Begins to connect; errno is EINPROGRESS where that has not ended.
Fd start_to_connect(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found)) {
    errno = EADDRNOTAVAIL;
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  Fd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return {};
  errno = 0;
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) return {};
  return fd;
}

bool send_hello(const Fd& socket, Hello hello, int memory) {
  iovec part{&hello, sizeof hello};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (memory >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &memory, sizeof memory);
  }
  // It is the first that is sent, so there is room.
  return sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof hello);
}

/// A link that connects when it is used, and then is the one that it has connected.
class ProcessLink final : public Link {
 public:
  ProcessLink(LinkDoor& door, int rank, const LinkCard& mine, int peer, const LinkCard& theirs,
              std::string name)
      : door_(door),
        opens_(rank < peer),
        shared_(!mine.host.empty() && mine.host == theirs.host),
        peer_(peer),
        theirs_(theirs),
        name_(std::move(name)) {
    hello_.from = rank;
    hello_.to_token = theirs.token;
    hello_.from_token = mine.token;
  }

  std::size_t try_send(std::span<const std::byte> bytes) override {
    return connected() ? link_->try_send(bytes) : 0;
  }
  std::span<const std::byte> received() override {
    return connected() ? link_->received() : std::span<const std::byte>();
  }
  void consume(std::size_t bytes) override { link_->consume(bytes); }
  std::size_t try_recv(std::span<std::byte> bytes) override {
    return connected() ? link_->try_recv(bytes) : 0;
  }
  std::string_view kind() const override { return shared_ ? "shared memory" : "tcp"; }

  bool ready(const Wish& wish) override { return link_ && link_->ready(wish); }
  bool worth_looking() const override { return link_ && link_->worth_looking(); }
  Sleep arm(const Wish& wish) override {
    armed_ = link_ != nullptr;
    if (armed_) return link_->arm(wish);
    if (!socket_.valid())
      return {.fd = door_.fd(),
              .events = POLLIN,
              .until = Clock::now() + (opens_ ? Clock::duration(kRetry) : kLookAgain)};
    return {.fd = socket_.get(), .events = static_cast<short>(greeted_ ? POLLIN : POLLOUT)};
  }
  void disarm(short events) override {
    if (armed_) link_->disarm(events);
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (link_) link_->close();
    if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  bool connected() {
    if (link_) [[likely]]
      return true;
    const std::lock_guard lock(mutex_);
    FERRITE_CHECK(!closed_, DistributedError, "link", "the link to {} was closed", name_);
    if (opens_)
      open();
    else
      answer();
    return link_ != nullptr;
  }

  [[noreturn]] void fail_gone() const {
    fail<DistributedError>("link", "{} has closed its links, or has died ({})", name_, kind());
  }

  // ---- the lower rank

  void open() {
    if (!socket_.valid()) start();
    if (!socket_.valid()) return;
    if (!greeted_ && !greet()) return;
    // The answer proves that it was told by the store, too, who we are.
    const ssize_t n =
        recv(socket_.get(), answer_.data() + answered_, answer_.size() - answered_, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) fail_gone();
    answered_ += static_cast<std::size_t>(n);
    if (answered_ < answer_.size()) return;
    FERRITE_CHECK(answer_ == hello_.from_token, DistributedError, "link",
                  "what answers in place of {} is no rank of this job", name_);
    become(std::move(socket_), std::exchange(memory_, nullptr), 0);
  }

  void start() {
    if (shared_) {
      socket_ = connect_to_unix(theirs_.unix_name);
      if (!socket_.valid() && errno == EAGAIN) return;  // too many at once: again later
    } else {
      socket_ = start_to_connect(theirs_.tcp);
    }
    if (!socket_.valid()) fail_gone();
    if (shared_) memory_ = RingMemory::create();
  }

  bool greet() {
    if (!shared_) {
      pollfd look{socket_.get(), POLLOUT, 0};
      if (poll(&look, 1, 0) <= 0) return false;
      int error = 0;
      socklen_t size = sizeof error;
      if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        fail_gone();
    }
    if (!send_hello(socket_, hello_, memory_ ? memory_->fd() : -1)) fail_gone();
    if (memory_) memory_->close_fd();
    greeted_ = true;
    return true;
  }

  // ---- the higher rank

  void answer() {
    if (std::optional<LinkDoor::Arrival> arrival = door_.take(peer_)) {
      const LinkToken& token = theirs_.token;
      if (::send(arrival->socket.get(), token.data(), token.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
          static_cast<ssize_t>(token.size()))
        fail_gone();
      std::shared_ptr<RingMemory> memory;
      if (shared_) {
        memory = RingMemory::open(std::move(arrival->memory));
        memory->close_fd();
      }
      return become(std::move(arrival->socket), std::move(memory), 1);
    }
    if (door_.is_gone(peer_)) fail_gone();
    knock();
  }

  void knock() {
    if (knocked_) return;
    if (!knock_.valid()) {
      knock_ = shared_ ? connect_to_unix(theirs_.unix_name) : start_to_connect(theirs_.tcp);
      if (!knock_.valid() && shared_ && errno == EAGAIN) return;
      if (!knock_.valid()) fail_gone();
    }
    Hello hello = hello_;
    hello.greet = Greet::knock;
    pollfd look{knock_.get(), POLLOUT, 0};
    if (!shared_ && poll(&look, 1, 0) <= 0) return;
    if (!send_hello(knock_, hello, -1)) fail_gone();
    knocked_ = true;
    door_.watch(peer_, std::move(knock_));
  }

  void become(Fd socket, std::shared_ptr<RingMemory> memory, int end) {
    if (memory)
      link_ = std::make_unique<RingLink>(std::move(memory), end, std::move(socket), name_,
                                         "shared memory");
    else
      link_ = std::make_unique<TcpLink>(std::move(socket), name_);
    link_ = with_delay(std::move(link_));
  }

  LinkDoor& door_;
  const bool opens_, shared_;
  const int peer_;
  const LinkCard& theirs_;
  const std::string name_;
  Hello hello_;

  std::mutex mutex_;  // of what close() looks at
  bool closed_ = false;
  std::unique_ptr<Link> link_;
  Fd socket_;

  std::shared_ptr<RingMemory> memory_;
  bool greeted_ = false, knocked_ = false, armed_ = false;
  Fd knock_;
  LinkToken answer_{};
  std::size_t answered_ = 0;
};

class ProcessMesh final : public LinkMesh {
 public:
  ProcessMesh(const GroupContext& context, std::unique_ptr<LinkDoor> door,
              std::vector<LinkCard> cards)
      : rank_(context.rank), door_(std::move(door)), cards_(std::move(cards)) {
    for (int peer = 0; peer < context.size; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      const int job_rank = at < context.job_ranks.size() ? context.job_ranks[at] : peer;
      links_.push_back(peer == rank_ ? nullptr
                                     : std::make_unique<ProcessLink>(
                                           *door_, rank_, cards_[static_cast<std::size_t>(rank_)],
                                           peer, cards_[at], fmt::format("rank {}", job_rank)));
    }
  }
  ~ProcessMesh() override { ProcessMesh::close(); }
  ProcessMesh(const ProcessMesh&) = delete;
  ProcessMesh& operator=(const ProcessMesh&) = delete;

  Link& to(int rank) override {
    FERRITE_CHECK(rank >= 0 && rank < static_cast<int>(links_.size()) && rank != rank_, ValueError,
                  "link", "expected another rank of {}, got {}", links_.size(), rank);
    return *links_[static_cast<std::size_t>(rank)];
  }

  void close() override {
    for (const auto& link : links_)
      if (link) link->close();
    door_->close();
  }

 private:
  const int rank_;
  const std::unique_ptr<LinkDoor> door_;
  const std::vector<LinkCard> cards_;
  std::vector<std::unique_ptr<ProcessLink>> links_;
};

enum class Transport : std::uint8_t { any, tcp, shared_memory };

Transport transport() {
  const char* const text = std::getenv("FERRITE_LINK");
  const std::string_view choice = text ? text : "";
  FERRITE_CHECK(choice.empty() || choice == "tcp" || choice == "shm", ValueError, "link",
                "expected FERRITE_LINK to be tcp or shm, got \"{}\"", choice);
  return choice == "tcp"   ? Transport::tcp
         : choice == "shm" ? Transport::shared_memory
                           : Transport::any;
}

}  // namespace

std::unique_ptr<LinkMesh> connect_links(const GroupContext& context, std::string_view name) {
  const Transport wanted = transport();
  const std::string identity = wanted == Transport::tcp ? "" : host_identity();
  const std::string host = context.store->local_host();
  auto door = std::make_unique<LinkDoor>(host.empty() ? "127.0.0.1" : host, !identity.empty(),
                                         std::min(4 * context.size + 64, 4096));
  LinkCard mine = door->card();
  mine.host = identity;
  const auto key = [&](int rank) { return fmt::format("{}/{}", name, rank); };
  context.store->set(key(context.rank), mine.text());
  std::vector<LinkCard> cards;
  for (int rank = 0; rank < context.size; ++rank) {
    cards.push_back(rank == context.rank
                        ? mine
                        : LinkCard::parse(context.store->get(key(rank), context.timeout)));
    FERRITE_CHECK(
        wanted != Transport::shared_memory || (!identity.empty() && cards.back().host == identity),
        DistributedError, "link",
        "FERRITE_LINK=shm, but rank {} is on another host, or in a network name space "
        "of its own",
        rank);
  }
  door->admit(cards);
  return std::make_unique<ProcessMesh>(context, std::move(door), std::move(cards));
}

}  // namespace ferrite::parallel
