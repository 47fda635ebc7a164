#include "ferrite/parallel/comm/links/listener.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::links {

namespace {

constexpr std::size_t kMaxPending = 1024;
constexpr auto kPendingTime = std::chrono::seconds(5);
/// Connections that a call accepts at each address. Others wait in the system's queue, so that
/// strangers who keep connecting cannot hold the caller.
constexpr int kAtOnce = 64;

[[noreturn]] void fail_system(const char* what) {
  fail<DistributedError>("link", "{}: {}", what, std::generic_category().message(errno));
}

socklen_t unix_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  // A name that starts with a zero byte is in no file system.
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof address.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Fd unix_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

/// Like recv(2), also receiving a passed descriptor.
ssize_t receive_with(int socket, void* to, std::size_t size, Fd& passed) {
  iovec part{to, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return n;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    // A stranger may send more than one, which fit: all are taken, and closed.
    for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      passed = Fd(fd);
    }
  }
  return n;
}

}  // namespace

Fd listen_at_unix(const std::string& name, int backlog) {
  Fd fd = unix_socket();
  sockaddr_un address;
  const socklen_t size = unix_address(name, address);
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), backlog) != 0)
    return {};
  return fd;
}

Fd connect_to_unix(const std::string& name) {
  Fd fd = unix_socket();
  sockaddr_un address;
  const socklen_t size = unix_address(name, address);
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  return fd;
}

bool is_of_this_user(const Fd& socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         size == sizeof other && other.uid == geteuid();
}

/// What the listeners of this process have in common: its descriptors.
struct LinkListener::Process {
  std::mutex mutex;  ///< protects the members of all listeners; no member blocks
  std::vector<LinkListener*> listeners;
  std::size_t pending = 0;
  const std::size_t max_pending = limited_by_descriptors(kMaxPending, 8);

  /// The listener with the oldest unauthenticated connection; null if there is none.
  LinkListener* oldest() const {
    LinkListener* found = nullptr;
    for (LinkListener* listener : listeners)
      if (!listener->pending_.empty() &&
          (!found || listener->pending_.front().since < found->pending_.front().since))
        found = listener;
    return found;
  }
  /// A holder of the secret proves itself within moments, so the oldest goes. False if there is
  /// none.
  bool drop_oldest() {
    LinkListener* const listener = oldest();
    if (listener) listener->remove(listener->pending_.begin());
    return listener != nullptr;
  }
  void drop_expired() {
    const auto now = std::chrono::steady_clock::now();
    for (LinkListener* listener : listeners)
      while (!listener->pending_.empty() && now - listener->pending_.front().since > kPendingTime)
        listener->remove(listener->pending_.begin());
  }
};

LinkListener::Process& LinkListener::process() {
  static auto* const all = new Process;  // listeners may live until the process ends
  return *all;
}

LinkListener::LinkListener(const std::string& host, bool shared, int backlog)
    : events_(epoll_create1(EPOLL_CLOEXEC)), closing_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!events_.valid() || !closing_.valid()) fail_system("the system has no more descriptors");
  add(closing_.get());
  address_.nonce = hexadecimal(random_bytes(16));
  try {
    tcp_ = listen_at({host, 0}, backlog);
  } catch (const std::system_error& e) {
    fail<DistributedError>("link", "{}", e.what());
  }
  address_.tcp = {host, local_address(tcp_).port};
  add(tcp_.get());
  if (shared) {
    address_.unix_name = "ferrite-link-" + hexadecimal(random_bytes(16));
    unix_ = listen_at_unix(address_.unix_name, backlog);
    if (!unix_.valid()) fail_system("cannot listen at a Unix socket");
    add(unix_.get());
  }
  const std::lock_guard lock(process().mutex);
  process().listeners.push_back(this);
}

LinkListener::~LinkListener() {
  const std::lock_guard lock(process().mutex);
  stop_listening();
  std::erase(process().listeners, this);
}

void LinkListener::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    fail_system("the system has no more descriptors");
}

void LinkListener::admit(LinkMembers members) {
  const std::lock_guard lock(process().mutex);
  members_ = std::move(members);
  const std::vector<LinkAddress>& addresses = members_.addresses;
  admitted_.assign(addresses.size(), false);
  missing_ = addresses.size() - 1;
  const LinkAddress& mine = addresses[static_cast<std::size_t>(members_.rank)];
  if (std::all_of(addresses.begin(), addresses.end(),
                  [&](const LinkAddress& address) { return address.is_beside(mine); }))
    tcp_.reset();
}

void LinkListener::close() {
  const std::lock_guard lock(process().mutex);
  if (std::exchange(closed_, true)) return;
  stop_listening();
  arrivals_.clear();
  eventfd_write(closing_.get(), 1);
}

/// Closing also removes descriptors from the poll set.
void LinkListener::stop_listening() {
  tcp_.reset();
  unix_.reset();
  while (!pending_.empty()) remove(pending_.begin());
}

std::optional<LinkListener::Arrival> LinkListener::take(int rank) {
  const std::lock_guard lock(process().mutex);
  if (!closed_) process_events();
  process().drop_expired();
  const auto found = arrivals_.find(rank);
  if (found == arrivals_.end()) return std::nullopt;
  Arrival arrival = std::move(found->second);
  arrivals_.erase(found);
  return arrival;
}

void LinkListener::process_events() {
  std::array<epoll_event, kAtOnce> events;
  const int n = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == tcp_.get()) {
      accept_pending(tcp_, false);
    } else if (fd == unix_.get()) {
      accept_pending(unix_, true);
    } else if (const auto pending = pending_of_.find(fd); pending != pending_of_.end()) {
      read_hello(pending->second);
    }
  }
}

void LinkListener::accept_pending(const Fd& listener, bool local) {
  // The last rank may be admitted meanwhile, which closes the listener.
  for (int i = 0; i < kAtOnce && listener.valid(); ++i) {
    Fd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (!process().drop_oldest()) return;  // which would have freed a descriptor
      continue;
    }
    if (local && !is_of_this_user(socket)) continue;
    if (process().pending >= process().max_pending) process().drop_oldest();
    const int fd = socket.get();
    add(fd);
    PendingConnection& pending = pending_.emplace_back();
    pending.socket = std::move(socket);
    pending.local = local;
    pending.since = std::chrono::steady_clock::now();
    pending_of_[fd] = std::prev(pending_.end());
    ++process().pending;
    read_hello(pending_of_[fd]);
  }
}

LinkListener::PendingConnection LinkListener::remove(PendingConnections::iterator pending) {
  PendingConnection removed = std::move(*pending);
  pending_of_.erase(removed.socket.get());
  pending_.erase(pending);
  --process().pending;
  return removed;
}

void LinkListener::read_hello(PendingConnections::iterator at) {
  PendingConnection& pending = *at;
  const int fd = pending.socket.get();
  auto* const bytes = reinterpret_cast<char*>(&pending.hello);
  const std::size_t missing = sizeof pending.hello - pending.bytes;
  const ssize_t n = pending.local ? receive_with(fd, bytes + pending.bytes, missing, pending.memory)
                                  : recv(fd, bytes + pending.bytes, missing, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) {
    pending.bytes += static_cast<std::size_t>(n);
    if (pending.bytes < sizeof pending.hello) return;
  }
  PendingConnection ended = remove(at);
  if (n > 0) admit(ended);
}

/// Admits the connection if it has proved its rank, over the transport of that rank.
void LinkListener::admit(PendingConnection& pending) {
  const Hello& hello = pending.hello;
  const auto from = static_cast<std::size_t>(hello.from);
  if (hello.magic != Hello::kMagic || hello.from < 0 || from >= members_.addresses.size() ||
      hello.from == members_.rank || admitted_[from])
    return;
  const LinkAddress& mine = members_.addresses[static_cast<std::size_t>(members_.rank)];
  if (members_.addresses[from].is_beside(mine) != pending.local) return;
  const LinkKeys keys = members_.keys(static_cast<int>(from), members_.rank);
  if (!equal_secrets({hello.proof.data(), hello.proof.size()}, keys.opener_proof)) return;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, pending.socket.get(), nullptr);
  // Nothing was sent before, so there is room. Within a host the system has authenticated the peer.
  if (!pending.local &&
      ::send(pending.socket.get(), keys.admitter_proof.data(), keys.admitter_proof.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(keys.admitter_proof.size()))
    return;
  admitted_[from] = true;
  arrivals_[static_cast<int>(from)] = {std::move(pending.socket), std::move(pending.memory)};
  if (--missing_ == 0) stop_listening();
}

}  // namespace ferrite::parallel::links
