// Where the links of other processes arrive.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "parallel/comm/link_card.h"
#include "parallel/comm/socket.h"

namespace ferrite::parallel {

/// All members may be called from any thread; none blocks.
class LinkDoor {
 public:
  struct Arrival {
    Fd socket;
    Fd memory;  ///< of links through shared memory
  };

  /// Listens at any free port of `host` and, where `shared`, at a Unix socket. DistributedError
  /// where that cannot be.
  LinkDoor(const std::string& host, bool shared, int backlog);
  ~LinkDoor();
  LinkDoor(const LinkDoor&) = delete;
  LinkDoor& operator=(const LinkDoor&) = delete;

  /// Of this rank; without `host`.
  const LinkCard& card() const { return card_; }
  /// What all ranks have said; before anybody is let in.
  void admit(std::vector<LinkCard> cards);

  /// The connection that `rank` has opened, if it has.
  std::optional<Arrival> take(int rank);
  /// Readable when something has come, or all has been closed.
  int fd() const { return events_.get(); }

  /// Lets nobody in from now on.
  void close();

 private:
  struct Guest {  // has not said yet who it is, or has knocked
    Fd socket, memory;
    Hello hello;
    std::size_t bytes = 0;
    bool local = false;
  };

  void look();
  void let_in(const Fd& listener, bool local);
  void listen_to(Guest& guest);
  bool is_welcome(const Guest& guest) const;
  void add(int fd);

  std::mutex mutex_;
  LinkCard card_;
  std::vector<LinkCard> cards_;
  Fd events_, closing_, tcp_, unix_;
  bool closed_ = false;
  std::map<int, std::unique_ptr<Guest>> guests_;  // by descriptor
  std::map<int, Arrival> arrivals_;               // by rank
};

/// A Unix socket, non-blocking, that listens at the abstract name or connects to it; not valid, and
/// errno, where it does not.
Fd listen_at_unix(const std::string& name, int backlog);
Fd connect_to_unix(const std::string& name);

}  // namespace ferrite::parallel
