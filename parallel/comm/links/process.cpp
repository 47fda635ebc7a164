// Links between processes. Each rank listens, and publishes its address in the store. A link is
// created on first use, from two connections: each rank opens the one through which it sends. It
// can thus send before the other end is ready, and notices through either connection when the other
// process is gone.
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/exchange.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/links/listener.h"
#include "ferrite/parallel/comm/links/ring.h"
#include "ferrite/parallel/comm/links/tcp.h"

namespace ferrite::parallel::links {

namespace {

using Clock = std::chrono::steady_clock;

// Retry interval for conditions without a notification.
constexpr auto kRetry = std::chrono::milliseconds(5);
constexpr auto kLookAgain = std::chrono::milliseconds(100);

/// Begins to connect; errno is EINPROGRESS if that has not finished.
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
  // It is the first data sent, so there is room.
  return sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof hello);
}

/// A link that connects on first use, from one link per direction.
class ProcessLink final : public Link {
 public:
  ProcessLink(LinkListener& listener, const LinkMembers& members, int peer, std::string name)
      : listener_(listener),
        theirs_(members.addresses[static_cast<std::size_t>(peer)]),
        shared_(theirs_.is_beside(members.addresses[static_cast<std::size_t>(members.rank)])),
        rank_(members.rank),
        peer_(peer),
        out_keys_(members.keys(rank_, peer)),
        in_keys_(members.keys(peer, rank_)),
        name_(std::move(name)) {}

  std::size_t try_send(std::span<const std::byte> bytes) override {
    return can_send() ? out_->try_send(bytes) : 0;
  }
  std::span<const std::byte> received() override {
    return can_receive() ? in_->received() : std::span<const std::byte>();
  }
  void consume(std::size_t bytes) override { in_->consume(bytes); }
  std::size_t try_recv(std::span<std::byte> bytes) override {
    return can_receive() ? in_->try_recv(bytes) : 0;
  }
  std::string_view kind() const override { return shared_ ? "shared memory" : "tcp"; }

  bool ready(const Interest& interest) override {
    if (interest.send && out_ && out_->ready({.send = true})) return true;
    return interest.recv && in_ && in_->ready({.recv = true, .have = interest.have});
  }
  bool worth_looking(const Interest& interest) const override {
    return shared_ && (!interest.send || out_) && (!interest.recv || in_);
  }

  PollRequest arm(const Interest& interest) override {
    PollRequest request;
    const bool absent = interest.recv && !in_;
    in_armed_ = interest.recv && in_;
    out_armed_ = (interest.send || absent) && out_;
    if (in_armed_)
      request.fds[0] = in_->arm({.recv = true, .have = interest.have}).fds[0];
    else if (absent)
      request.fds[0] = {listener_.fd(), POLLIN, 0};
    if (out_armed_)  // which also reports that the peer will not come
      request.fds[1] = out_->arm({.send = interest.send, .recv = absent}).fds[0];
    else if (socket_.valid())
      request.fds[1] = {socket_.get(), POLLOUT, 0};
    else if (!out_)
      request.until = Clock::now() + kRetry;
    // Another thread may have processed the event for this link.
    if (absent) request.until = std::min(request.until, Clock::now() + kLookAgain);
    return request;
  }
  void disarm(const PollRequest& request) override {
    if (in_armed_) in_->disarm(request);
    if (!out_armed_) return;
    PollRequest of_out;
    of_out.fds[0] = request.fds[1];
    out_->disarm(of_out);
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (in_) in_->close();
    if (out_) out_->close();
    if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  [[noreturn]] void fail_gone() const {
    fail<DistributedError>("link", "{} has closed its links, or has died ({})", name_, kind());
  }
  void check_open() const {
    FERRITE_CHECK(!closed_, DistributedError, "link", "the link to {} was closed", name_);
  }

  bool can_send() {
    if (out_) [[likely]]
      return true;
    const std::lock_guard lock(mutex_);
    check_open();
    if (!socket_.valid()) start();
    if (socket_.valid()) greet();
    return out_ != nullptr;
  }

  bool can_receive() {
    if (in_) [[likely]]
      return true;
    // First checks whether the other process is alive: everything it sent before it went has then
    // arrived.
    std::exception_ptr gone;
    try {
      if (can_send()) out_->received();
    } catch (const DistributedError&) {
      gone = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    check_open();
    if (std::optional<LinkListener::Arrival> arrival = listener_.take(peer_)) {
      std::shared_ptr<RingMemory> memory;
      if (shared_) memory = RingMemory::open(std::move(arrival->memory));
      in_ = make(std::move(arrival->socket), std::move(memory), 1, "", in_keys_);
    } else if (gone) {
      std::rethrow_exception(gone);
    }
    return in_ != nullptr;
  }

  void start() {
    if (shared_) {
      socket_ = connect_to_unix(theirs_.unix_name);
      if (!socket_.valid() && errno == EAGAIN) return;  // too many at once: retry later
      FERRITE_CHECK(!socket_.valid() || is_of_this_user(socket_), DistributedError, "link",
                    "the process listening in place of {} belongs to another user", name_);
    } else {
      socket_ = start_to_connect(theirs_.tcp);
    }
    if (!socket_.valid() && errno == ECONNREFUSED) fail_gone();
    FERRITE_CHECK(socket_.valid(), DistributedError, "link", "cannot connect to {} ({}): {}", name_,
                  kind(), std::generic_category().message(errno));
  }

  /// Once it is connected; the other end need not have accepted it.
  void greet() {
    if (!shared_) {
      pollfd look{socket_.get(), POLLOUT, 0};
      if (poll(&look, 1, 0) <= 0) return;
      int error = 0;
      socklen_t size = sizeof error;
      if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
      if (error == ECONNREFUSED || error == ECONNRESET) fail_gone();
      FERRITE_CHECK(error == 0, DistributedError, "link", "cannot connect to {} at {}: {}", name_,
                    theirs_.tcp.text(), std::generic_category().message(error));
    }
    const std::shared_ptr<RingMemory> memory = shared_ ? RingMemory::create(1) : nullptr;
    Hello hello;
    hello.from = rank_;
    std::copy_n(out_keys_.opener_proof.begin(), hello.proof.size(), hello.proof.begin());
    if (!send_hello(socket_, hello, memory ? memory->fd() : -1)) fail_gone();
    out_ = make(std::move(socket_), memory, 0, out_keys_.admitter_proof, out_keys_);
  }

  std::unique_ptr<Link> make(Fd socket, std::shared_ptr<RingMemory> memory, int end,
                             const std::string& expected, const LinkKeys& keys) const {
    if (!memory && theirs_.sealed)
      return std::make_unique<SealedTcpLink>(std::move(socket), name_, expected, keys.frames);
    if (!memory) return std::make_unique<TcpLink>(std::move(socket), name_, expected);
    memory->close_fd();
    return std::make_unique<RingLink>(std::move(memory), end, std::move(socket), name_,
                                      "shared memory");
  }

  LinkListener& listener_;
  const LinkAddress& theirs_;
  const bool shared_;
  const int rank_, peer_;
  const LinkKeys out_keys_, in_keys_;
  const std::string name_;
  bool in_armed_ = false, out_armed_ = false;

  std::mutex mutex_;  // protects the members used by close()
  bool closed_ = false;
  std::unique_ptr<Link> in_, out_;
  Fd socket_;  // will become out_
};

class ProcessMesh final : public LinkMesh {
 public:
  ProcessMesh(const GroupContext& context, std::unique_ptr<LinkListener> listener,
              LinkMembers members)
      : rank_(context.rank), listener_(std::move(listener)), members_(std::move(members)) {
    for (int peer = 0; peer < context.size; ++peer) {
      links_.push_back(peer == rank_ ? nullptr
                                     : with_delay(std::make_unique<ProcessLink>(
                                           *listener_, members_, peer,
                                           fmt::format("rank {}", context.job_rank(peer)))));
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
    listener_->close();
  }

 private:
  const int rank_;
  const std::unique_ptr<LinkListener> listener_;
  const LinkMembers members_;
  std::vector<std::unique_ptr<Link>> links_;
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

bool seals_tcp() {
  const char* const text = std::getenv("FERRITE_TCP_INTEGRITY");
  const std::string_view choice = text && *text ? text : "on";
  FERRITE_CHECK(choice == "on" || choice == "off", ValueError, "link",
                "expected FERRITE_TCP_INTEGRITY to be on, or off (what goes over TCP is not "
                "protected against change), got \"{}\"",
                choice);
  return choice == "on";
}

/// The first address of the interface named by GLOO_SOCKET_IFNAME (the first one of a list);
/// otherwise the one through which the store is reached, so that jobs on localhost stay local.
std::string address_to_listen_at(const Store& store) {
  const char* const given = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string interface(given ? std::string_view(given, std::strcspn(given, ",")) : "");
  if (interface.empty()) {
    const std::string host = store.local_host();
    return host.empty() ? "127.0.0.1" : host;
  }
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) all = nullptr;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  std::string address;
  for (const ifaddrs* at = all; at; at = at->ifa_next) {
    const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
    if (interface != at->ifa_name || (family != AF_INET && family != AF_INET6)) continue;
    std::array<char, NI_MAXHOST> text{};
    const auto size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(at->ifa_addr, static_cast<socklen_t>(size), text.data(), text.size(), nullptr,
                    0, NI_NUMERICHOST) != 0)
      continue;
    if (address.empty() || family == AF_INET) address = text.data();
    if (family == AF_INET) break;
  }
  FERRITE_CHECK(!address.empty(), ValueError, "link",
                "there is no network interface with an address that GLOO_SOCKET_IFNAME={} names",
                given);
  return address;
}

/// The addresses of the mesh's ranks, after checking that their settings agree.
std::vector<LinkAddress> read_addresses(const GroupContext& context,
                                        const std::vector<std::string>& texts, Transport wanted) {
  const auto name = [&](std::size_t rank) { return context.job_rank(static_cast<int>(rank)); };
  std::vector<LinkAddress> addresses;
  for (const std::string& text : texts) addresses.push_back(LinkAddress::parse(text));
  const LinkAddress& mine = addresses[static_cast<std::size_t>(context.rank)];
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    FERRITE_CHECK(wanted != Transport::shared_memory || addresses[rank].is_beside(mine),
                  DistributedError, "link",
                  "FERRITE_LINK=shm, but rank {} is on another host, or in a network name space "
                  "of its own",
                  name(rank));
    const auto state = [](const LinkAddress& address) { return address.sealed ? "on" : "off"; };
    FERRITE_CHECK(
        addresses[rank].sealed == addresses[0].sealed, ValueError, "link",
        "FERRITE_TCP_INTEGRITY must be the same on all ranks: it is {} on rank {}, and {} "
        "on rank {}",
        state(addresses[0]), name(0), state(addresses[rank]), name(rank));
  }
  return addresses;
}

}  // namespace

std::unique_ptr<LinkMesh> connect_links(const GroupContext& context, std::string_view name) {
  const Transport wanted = transport();
  const std::string identity = wanted == Transport::tcp ? "" : host_identity();
  auto listener =
      std::make_unique<LinkListener>(address_to_listen_at(*context.store), !identity.empty(),
                                     std::min(4 * context.size + 1024, 4096));
  LinkAddress mine = listener->address();
  mine.host = identity;
  mine.sealed = seals_tcp();
  LinkMembers members{context.store->secret(), fmt::format("{}/{}", context.name, name),
                      context.rank,
                      read_addresses(context, exchange(context, name, mine.text()), wanted)};
  listener->admit(members);
  return std::make_unique<ProcessMesh>(context, std::move(listener), std::move(members));
}

}  // namespace ferrite::parallel::links
