// Sockets of the host: what the store and the links between processes stand on. Linux.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ferrite::parallel::links {

/// A file descriptor that is closed when it is let go of.
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

/// Of "host:port" or "[::1]:port". ValueError, naming `what` it was given as, for anything else.
Address parse_address(std::string_view text, std::string_view what);

using Deadline = std::chrono::steady_clock::time_point;

/// Listens at the first address that `host` stands for, and no other; port 0 is any free one.
/// Throws std::system_error where that cannot be, with EADDRINUSE where the port is taken and
/// EADDRNOTAVAIL where the address is not this host's; DistributedError where the name is not
/// known.
Fd listen_at(const Address& address, int backlog = 1024);
/// Where a socket listens, or which address of ours a connection has.
Address local_address(const Fd& fd);

/// Connects, with TCP_NODELAY, non-blocking. All addresses that the name stands for are tried in
/// turn; an Fd that is not valid, and why in `error`, where none answers by `deadline`.
Fd connect_to(const Address& address, Deadline deadline, std::string& error);

/// Of a non-blocking socket: false where the connection has gone or `deadline` has come. SIGPIPE is
/// never raised.
bool send_all(const Fd& fd, std::string_view bytes, Deadline deadline);
bool recv_all(const Fd& fd, char* bytes, std::size_t size, Deadline deadline);

/// Waits for poll(2)'s `events`; false where `deadline` has come.
bool wait_ready(int fd, short events, Deadline deadline);

/// The name of this host, as gethostname(2) gives it.
std::string host_name();
/// Whether what `host` stands for can be reached from this host alone (127.0.0.0/8, ::1).
bool is_loopback(const std::string& host);

}  // namespace ferrite::parallel::links
