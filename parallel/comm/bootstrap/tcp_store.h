// The store of processes: a client of a TcpStoreServer.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

/// What became of an attempt to reach a server of ours.
enum class Greeting : std::uint8_t {
  accepted,
  unreachable,    ///< nobody listens, or the name is not known
  stranger,       ///< who listens does not speak our protocol, or not at all
  other_version,  ///< of the protocol: another Ferrite
  refused,        ///< the token is another job's
  full,           ///< it has as many clients as it takes
};

struct Connection {
  links::Fd fd;  ///< valid where accepted
  std::unique_ptr<links::SealedChannel>
      channel;         ///< there where accepted: what all that follows goes by
  std::string secret;  ///< Store::secret(), where accepted
  Greeting greeting = Greeting::unreachable;
  std::string detail;  ///< "localhost:29500 does not answer: connection refused"
};

/// One attempt, over by `deadline`.
Connection greet(const links::Address& address, std::string_view token, links::Deadline deadline);
/// As many as it takes; DistributedError, with what came of the last one, after `timeout`.
Connection greet_until_accepted(const links::Address& address, std::string_view token,
                                std::chrono::milliseconds timeout);

/// Keys are up to 4 KiB and values up to 16 MiB (ValueError for more). Any thread may wait for a
/// key while others go on. Every call is over by a deadline: that of get() is its argument, that of
/// the others the constructor's timeout. There is no reconnecting: once the server is lost, or what
/// comes from it was changed on its way, every call says so.
class TcpStore final : public Store {
 public:
  /// Tries again until there is a server that accepts the token; DistributedError, with what came
  /// of the last attempt, after `timeout`.
  TcpStore(const links::Address& address, std::string_view token,
           std::chrono::milliseconds timeout);
  /// On a connection that greet() made.
  TcpStore(Connection connection, const links::Address& address, std::chrono::milliseconds timeout);
  ~TcpStore() override;

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool check(const std::vector<std::string>& keys) override;
  bool erase(const std::string& key) override;
  std::string local_host() const override;
  std::string secret() const override;
  /// Those that are not there.
  std::vector<std::string> missing(const std::vector<std::string>& keys);

  const links::Address& address() const;
  /// Whether the server is known to be.
  bool lost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::parallel::bootstrap
