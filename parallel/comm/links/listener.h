// Accepts links from other processes.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::links {

/// Thread-safe; no member blocks. Unauthenticated connections are closed: after some seconds, by
/// the next take() of any listener; oldest first if this process has too many; at once if the
/// system reports a process of another user; and all of them once every rank has been admitted,
/// after which the listener accepts no more.
class LinkListener {
 public:
  struct Arrival {
    Fd socket;
    Fd memory;  ///< for links through shared memory
  };

  /// Listens at any free port of `host` and, if `shared`, at a Unix socket. DistributedError if
  /// that is impossible.
  LinkListener(const std::string& host, bool shared, int backlog);
  ~LinkListener();
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  /// This rank's address, without `host`.
  const LinkAddress& address() const { return address_; }
  /// Sets the ranks that may connect; before it, none may. If all are on this host, the TCP port is
  /// closed.
  void admit(LinkMembers members);

  /// The connection opened by `rank`, if any: its first, and never another. Accepts and reads a
  /// bounded number of connections: where strangers keep connecting, it has to be called again
  /// while fd() is readable.
  std::optional<Arrival> take(int rank);
  /// Readable after an arrival, or after close().
  int fd() const { return events_.get(); }

  /// Accepts no connection from now on.
  void close();

 private:
  struct PendingConnection {  // not authenticated yet
    Fd socket, memory;
    Hello hello;
    std::size_t bytes = 0;
    bool local = false;
    std::chrono::steady_clock::time_point since;
  };
  using PendingConnections = std::list<PendingConnection>;
  struct Process;

  void process_events();
  void accept_pending(const Fd& listener, bool local);
  void read_hello(PendingConnections::iterator pending);
  void admit(PendingConnection& pending);
  PendingConnection remove(PendingConnections::iterator pending);
  void stop_listening();
  void add(int fd);

  static Process& process();

  LinkAddress address_;
  LinkMembers members_;
  Fd events_, closing_, tcp_, unix_;
  bool closed_ = false;
  PendingConnections pending_;                                        // oldest first
  std::unordered_map<int, PendingConnections::iterator> pending_of_;  // by descriptor
  std::vector<bool> admitted_;                                        // by rank
  std::size_t missing_ = 0;          // ranks that have not been admitted
  std::map<int, Arrival> arrivals_;  // by rank: admitted and not taken yet
};

/// A non-blocking Unix socket that listens at the abstract name or connects to it; on failure it is
/// invalid, with errno set.
Fd listen_at_unix(const std::string& name, int backlog);
Fd connect_to_unix(const std::string& name);
/// Whether the other end of a Unix socket is a process of the same user, according to the system.
bool is_of_this_user(const Fd& socket);

}  // namespace ferrite::parallel::links
