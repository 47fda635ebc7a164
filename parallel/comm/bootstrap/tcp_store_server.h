// The server of the store and of the heartbeats.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

struct TcpStoreServerOptions {
  /// The only address to listen at: this host's name or address. "0.0.0.0" for all.
  std::string host = "localhost";
  std::uint16_t port = 0;  ///< 0: any free port
  /// The shared secret, up to 256 bytes. Both ends prove that they know it (HMAC-SHA-256 over both
  /// nonces); it is never sent, and all later messages are sent in sealed frames, under keys
  /// derived from it (sealed_frames.h). A secret token that cannot be guessed (a random
  /// FERRITE_TOKEN, or the one created by a rendezvous by file) prevents other users of the host,
  /// and attackers on the network, from impersonating the server and from modifying messages;
  /// attackers on the network can still read them. A job's number as token only separates jobs, and
  /// stops no attacker.
  std::string token;
  /// Clients that have not authenticated by then are dropped, and so are those that stop in the
  /// middle of a message for as long.
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(5);
  std::size_t max_clients = 16384;
  /// Maximum number of unauthenticated clients; at most a quarter of the descriptors that the
  /// process may open. Beyond it, the oldest are dropped.
  std::size_t max_strangers = 1024;
  std::size_t max_bytes = std::size_t{256} << 20;  ///< of all keys and values
};

/// A rank with a heartbeat.
struct PresentRank {
  int rank = 0;
  std::string who;    ///< "host, process 123"
  double silent = 0;  ///< seconds since its last heartbeat
  std::string doing;  ///< a sentence about the last operation that it reported
};

/// Serves in a separate thread, from construction to destruction. Input of clients is validated;
/// one that violates the protocol is dropped without affecting the others.
class TcpStoreServer {
 public:
  /// std::system_error like listen_at(); ValueError for a token that is too long.
  explicit TcpStoreServer(TcpStoreServerOptions options);
  /// Tells the ranks that it ends, so that they do not consider it lost.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// The host as given, and the actual port.
  const links::Address& address() const;
  /// Waits until no client has a heartbeat any more (all ranks have left or were lost), for at most
  /// this long; returns whether that is so.
  bool wait_until_left(std::chrono::milliseconds timeout);
  std::size_t clients() const;
  /// At most a quarter of a second old.
  std::vector<PresentRank> present() const;
  /// Ranks that were told of another rank's loss or failure, or that had an operation fail because
  /// of another rank, up to now: if they fail, that is a consequence. The values are seconds since
  /// then.
  std::map<int, double> affected() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::parallel::bootstrap
