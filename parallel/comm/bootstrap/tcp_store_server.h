// The server of the ranks' store and of their heartbeats.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

struct TcpStoreServerOptions {
  /// Where to listen, and nowhere else: this host's name or address. "0.0.0.0" for all.
  std::string host = "localhost";
  std::uint16_t port = 0;  ///< 0: any free one
  /// What clients must know, up to 256 bytes. Both ends prove that they know it (HMAC-SHA-256 over
  /// nonces of both), it is never sent, and everything after that goes in sealed frames, under keys
  /// made of it (sealed_frames.h). A token that is secret and cannot be guessed (FERRITE_TOKEN of
  /// random bytes, or what a rendezvous by file makes) keeps out, from playing the server and from
  /// changing what is said, other users of the host and whoever is on the way between hosts, who
  /// can read it, though. One that is a job's number keeps out other jobs, by mistake, and nobody
  /// who means harm.
  std::string token;
  /// Clients that have not proved it by then are dropped, and so are those that stop in the
  /// middle of a message for as long.
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(5);
  std::size_t max_clients = 16384;
  /// Clients that have not yet proved it; at most a quarter of the descriptors that the process may
  /// open. Where there are more, the oldest of them are dropped.
  std::size_t max_strangers = 1024;
  std::size_t max_bytes = std::size_t{256} << 20;  ///< of all keys and values
};

/// A rank that has a heartbeat.
struct PresentRank {
  int rank = 0;
  std::string who;    ///< "host, process 123"
  double silent = 0;  ///< seconds since it was last heard of
  std::string doing;  ///< "its last operation is all_reduce number 57, begun 3.1 s ago"
};

/// Serves in a thread of its own, from construction to destruction. What clients send is checked;
/// one that breaks the protocol is dropped, and the others do not notice.
class TcpStoreServer {
 public:
  /// std::system_error as listen_at(); ValueError for a token that is too long.
  explicit TcpStoreServer(TcpStoreServerOptions options);
  /// Tells the ranks that it ends, so that they do not take it for lost.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// The host as it was given and the port that it has.
  const links::Address& address() const;
  /// Waits until no client has a heartbeat any more (all ranks have left or were lost), at most so
  /// long; whether it is so.
  bool wait_until_left(std::chrono::milliseconds timeout);
  std::size_t clients() const;
  /// As of a quarter of a second ago, at most.
  std::vector<PresentRank> present() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::parallel::bootstrap
