#include "parallel/comm/link_door.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "core/error.h"

namespace ferrite::parallel {

namespace {

// Strangers that say nothing are turned out, the oldest first.
constexpr std::size_t kMaxGuests = 4096;

[[noreturn]] void fail_system(const char* what) {
  fail<DistributedError>("link", "{}: {}", what, std::generic_category().message(errno));
}

socklen_t unix_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  // A name that starts with a zero lies in no file system.
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof address.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Fd unix_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

/// As recv(2), with a descriptor that came along.
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
    // There is room for more than one, which a stranger may send: all are taken, and closed.
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

LinkDoor::LinkDoor(const std::string& host, bool shared, int backlog)
    : events_(epoll_create1(EPOLL_CLOEXEC)), closing_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!events_.valid() || !closing_.valid()) fail_system("the system has no more descriptors");
  add(closing_.get());
  card_.token = random_link_token();
  try {
    tcp_ = listen_at({host, 0}, backlog);
  } catch (const std::system_error& e) {
    fail<DistributedError>("link", "{}", e.what());
  }
  card_.tcp = {host, local_address(tcp_).port};
  add(tcp_.get());
  if (!shared) return;
  card_.unix_name = "ferrite-link-";
  for (const unsigned char byte : random_link_token())
    card_.unix_name += fmt::format("{:02x}", byte);
  unix_ = listen_at_unix(card_.unix_name, backlog);
  if (!unix_.valid()) fail_system("cannot listen at a Unix socket");
  add(unix_.get());
}

LinkDoor::~LinkDoor() = default;

void LinkDoor::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    fail_system("the system has no more descriptors");
}

void LinkDoor::admit(std::vector<LinkCard> cards) {
  const std::lock_guard lock(mutex_);
  cards_ = std::move(cards);
}

void LinkDoor::close() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(closed_, true)) return;
  // Closing takes them out of what is waited for, too.
  tcp_.reset();
  unix_.reset();
  guests_.clear();
  arrivals_.clear();
  eventfd_write(closing_.get(), 1);
}

std::optional<LinkDoor::Arrival> LinkDoor::take(int rank) {
  const std::lock_guard lock(mutex_);
  look();
  const auto found = arrivals_.find(rank);
  if (found == arrivals_.end()) return std::nullopt;
  Arrival arrival = std::move(found->second);
  arrivals_.erase(found);
  return arrival;
}

void LinkDoor::look() {
  std::array<epoll_event, 32> events;
  for (bool more = !closed_; more;) {
    const int n = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
    more = n == static_cast<int>(events.size());
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == tcp_.get()) {
        let_in(tcp_, false);
      } else if (fd == unix_.get()) {
        let_in(unix_, true);
      } else if (const auto guest = guests_.find(fd); guest != guests_.end()) {
        listen_to(*guest->second);
      }
    }
  }
}

void LinkDoor::let_in(const Fd& listener, bool local) {
  while (true) {
    auto guest = std::make_unique<Guest>();
    guest->socket = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest->socket.valid()) return;
    guest->local = local;
    const int fd = guest->socket.get();
    if (guests_.size() >= kMaxGuests) guests_.erase(guests_.begin());
    Guest& in = *guest;
    add(fd);
    guests_[fd] = std::move(guest);
    listen_to(in);
  }
}

bool LinkDoor::is_welcome(const Guest& guest) const {
  const Hello& hello = guest.hello;
  const auto from = static_cast<std::size_t>(hello.from);
  return hello.magic == Hello::kMagic && hello.to_token == card_.token && hello.from >= 0 &&
         from < cards_.size() && hello.from_token == cards_[from].token;
}

void LinkDoor::listen_to(Guest& guest) {
  const int fd = guest.socket.get();
  auto* const bytes = reinterpret_cast<char*>(&guest.hello);
  const std::size_t missing = sizeof guest.hello - guest.bytes;
  const ssize_t n = guest.local ? receive_with(fd, bytes + guest.bytes, missing, guest.memory)
                                : recv(fd, bytes + guest.bytes, missing, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) {
    guest.bytes += static_cast<std::size_t>(n);
    if (guest.bytes < sizeof guest.hello) return;
    if (is_welcome(guest)) {
      epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr);
      arrivals_[static_cast<int>(guest.hello.from)] = {std::move(guest.socket),
                                                       std::move(guest.memory)};
    }
  }
  guests_.erase(fd);
}

}  // namespace ferrite::parallel
