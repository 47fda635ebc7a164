// Sockets for the store and the links between processes. Linux.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ferrite::parallel::links {

/// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;
  std::uint16_t port = 0;
  /// "host:port", "[::1]:port".
  std::string text() const;
};

/// Parses "host:port" or "[::1]:port". ValueError, naming `what` it was given as, for anything
/// else, such as a host with spaces, brackets or control characters.
Address parse_address(std::string_view text, std::string_view what);

using Deadline = std::chrono::steady_clock::time_point;

/// The longest wait: longer ones are equivalent to endless ones, and their deadlines would
/// overflow.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);
/// At most the longest wait. For every time-out that a user gives.
constexpr std::chrono::milliseconds limited(std::chrono::milliseconds timeout) {
  return timeout < kLongestWait ? timeout : kLongestWait;
}

/// Listens only at the first address of `host`; port 0 is any free one. Throws std::system_error on
/// failure, with EADDRINUSE if the port is taken and EADDRNOTAVAIL if the address is not this
/// host's; DistributedError if the name is unknown.
Fd listen_at(const Address& address, int backlog = 1024);
/// The address at which a socket listens, or the local address of a connection.
Address local_address(const Fd& fd);

/// Connects, with TCP_NODELAY, non-blocking. Tries all addresses of the name in turn; an invalid
/// Fd, with the reason in `error`, if none answers by `deadline`.
Fd connect_to(const Address& address, Deadline deadline, std::string& error);

/// For a non-blocking socket: false if the connection is lost or `deadline` has passed. Never
/// raises SIGPIPE.
bool send_all(const Fd& fd, std::string_view bytes, Deadline deadline);
bool recv_all(const Fd& fd, char* bytes, std::size_t size, Deadline deadline);

/// Waits for `events` of poll(2); false if `deadline` has passed.
bool wait_ready(int fd, short events, Deadline deadline);

/// At most `wanted`, and at most this part of the descriptors that the process may open; 1 or more.
/// For connections that have not authenticated.
std::size_t limited_by_descriptors(std::size_t wanted, std::size_t divisor);

/// The name of this host, as gethostname(2) gives it.
std::string host_name();
/// Whether the addresses of `host` can be reached only from this host (127.0.0.0/8, ::1).
bool is_loopback(const std::string& host);

}  // namespace ferrite::parallel::links
