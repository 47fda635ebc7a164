#include "ferrite/parallel/comm/links/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <memory>
#include <system_error>

#include "ferrite/core/error.h"

namespace ferrite::parallel::links {
namespace {

using Clock = std::chrono::steady_clock;
using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null, with the reason in `error`, if the name is unknown.
Resolved resolve(const Address& address, bool to_listen, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (status != 0) {
    error = fmt::format("the name {} is not known: {}", address.host, gai_strerror(status));
    found = nullptr;
  }
  return {found, &freeaddrinfo};
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int milliseconds_left(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

/// 0, or errno.
int finish_connect(int fd, const addrinfo& to, Deadline deadline) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_ready(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

/// A socket that connects to a port of its own host may connect to itself.
bool is_connected_to_itself(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Address parse_address(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  Address address;
  const char* end = text.data() + text.size();
  const char* digits = colon == std::string_view::npos ? end : text.data() + colon + 1;
  const auto [stop, status] = std::from_chars(digits, end, address.port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = {};
  }
  const bool sound = std::none_of(host.begin(), host.end(), [](unsigned char c) {
    return c <= ' ' || c == '[' || c == ']' || c == 127;
  });
  FERRITE_CHECK(status == std::errc() && stop == end && !host.empty() && sound, ValueError,
                "rendezvous", "expected {} to be host:port with a port up to 65535, got \"{}\"",
                what, text);
  address.host = host;
  return address;
}

Fd listen_at(const Address& address, int backlog) {
  std::string error;
  const Resolved found = resolve(address, true, error);
  FERRITE_CHECK(found, DistributedError, "rendezvous", "cannot listen at {}: {}", address.text(),
                error);
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    Fd fd(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    if (!fd.valid()) {
      reason = errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0 && listen(fd.get(), backlog) == 0) {
      return fd;
    }
    // A port in use is more informative than a host without IPv6.
    if (reason != EADDRINUSE) reason = errno;
  }
  throw std::system_error(reason, std::generic_category(),
                          fmt::format("cannot listen at {}", address.text()));
}

Address local_address(const Fd& fd) {
  sockaddr_storage here{};
  socklen_t size = sizeof here;
  char host[NI_MAXHOST];
  FERRITE_CHECK(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size) == 0 &&
                    getnameinfo(reinterpret_cast<sockaddr*>(&here), size, host, sizeof host,
                                nullptr, 0, NI_NUMERICHOST) == 0,
                DistributedError, "rendezvous", "a socket has no address: {}",
                std::strerror(errno));
  const in_port_t port = here.ss_family == AF_INET
                             ? reinterpret_cast<const sockaddr_in&>(here).sin_port
                             : reinterpret_cast<const sockaddr_in6&>(here).sin6_port;
  return {host, ntohs(port)};
}

Fd connect_to(const Address& address, Deadline deadline, std::string& error) {
  const Resolved found = resolve(address, false, error);
  int left = 0;
  for (const addrinfo* to = found.get(); to; to = to->ai_next) ++left;
  for (const addrinfo* to = found.get(); to; to = to->ai_next, --left) {
    // An address that never answers must leave time for the next.
    const auto now = Clock::now();
    const Deadline share = now + (std::max(deadline, now) - now) / left;
    Fd fd(socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->ai_protocol));
    const int status = fd.valid() ? finish_connect(fd.get(), *to, share) : errno;
    if (status == 0 && !is_connected_to_itself(fd.get())) {
      set_no_delay(fd.get());
      return fd;
    }
    error = std::strerror(status == 0 ? ECONNREFUSED : status);
  }
  return {};
}

bool wait_ready(int fd, short events, Deadline deadline) {
  pollfd waiting{fd, events, 0};
  for (;;) {
    const int ready = poll(&waiting, 1, milliseconds_left(deadline));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool send_all(const Fd& fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(fd.get(), POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool recv_all(const Fd& fd, char* bytes, std::size_t size, Deadline deadline) {
  while (size > 0) {
    const ssize_t got = ::recv(fd.get(), bytes, size, 0);
    if (got > 0) {
      bytes += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(fd.get(), POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::size_t limited_by_descriptors(std::size_t wanted, std::size_t divisor) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::clamp<std::size_t>(limit.rlim_cur / divisor, 1, std::max<std::size_t>(wanted, 1));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

bool is_loopback(const std::string& host) {
  std::string error;
  const Resolved found = resolve({host, 0}, false, error);
  if (!found) return false;
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    if (!is_loopback(*at->ai_addr)) return false;
  }
  return true;
}

}  // namespace ferrite::parallel::links
