// Where the links of other processes arrive.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ferrite/parallel/comm/links/address.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::links {

/// All members may be called from any thread; none blocks. Strangers may knock: what has not proved
/// within some seconds to be of the mesh is turned out, where there are too many the oldest of
/// them, and processes of other users, where the system tells, at once.
class LinkListener {
 public:
  struct Arrival {
    Fd socket;
    Fd memory;  ///< of links through shared memory
  };

  /// Listens at any free port of `host` and, where `shared`, at a Unix socket. DistributedError
  /// where that cannot be.
  LinkListener(const std::string& host, bool shared, int backlog);
  ~LinkListener();
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  /// Of this rank; without `host`.
  const LinkAddress& address() const { return address_; }
  /// Who may come in; nobody may before. Where all are beside this rank, TCP is not listened to any
  /// more.
  void admit(LinkMembers members);

  /// The connection that `rank` has opened, if it has: its first, and never another.
  std::optional<Arrival> take(int rank);
  /// Readable when something has come, or all has been closed.
  int fd() const { return events_.get(); }

  /// Lets nobody in from now on.
  void close();

 private:
  struct Guest {  // has not proved yet who it is
    Fd socket, memory;
    Hello hello;
    std::size_t bytes = 0;
    bool local = false;
    std::chrono::steady_clock::time_point since;
  };
  using Guests = std::list<Guest>;

  void look();
  bool let_in(const Fd& listener, bool local);
  void listen_to(Guests::iterator guest);
  void welcome(Guest& guest);
  void turn_out(Guests::iterator guest);
  void add(int fd);

  std::mutex mutex_;
  LinkAddress address_;
  LinkMembers members_;
  Fd events_, closing_, tcp_, unix_;
  bool closed_ = false;
  const std::size_t max_guests_;
  Guests guests_;                                       // the oldest first
  std::unordered_map<int, Guests::iterator> guest_of_;  // by descriptor
  std::vector<bool> came_;                              // by rank: it has been let in
  std::map<int, Arrival> arrivals_;                     // by rank: and was not taken yet
};

/// A Unix socket, non-blocking, that listens at the abstract name or connects to it; not valid, and
/// errno, where it does not.
Fd listen_at_unix(const std::string& name, int backlog);
Fd connect_to_unix(const std::string& name);
/// Whether the other end of a Unix socket is a process of this one's user, by what the system says.
bool is_of_this_user(const Fd& socket);

}  // namespace ferrite::parallel::links
