// The store of processes: a client of a TcpStoreServer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/store.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

/// The result of an attempt to reach one of our servers.
enum class Greeting : std::uint8_t {
  accepted,
  unreachable,    ///< connection failed, or the name is unknown
  stranger,       ///< the listener does not speak our protocol
  other_version,  ///< another protocol version: another Ferrite
  refused,        ///< the token belongs to another job
  full,           ///< it has the maximum number of clients
};

struct Connection {
  links::Fd fd;                                   ///< valid if accepted
  std::unique_ptr<links::SealedChannel> channel;  ///< set if accepted: carries all further messages
  std::string secret;                             ///< Store::secret(), if accepted
  Greeting greeting = Greeting::unreachable;
  std::string detail;  ///< "localhost:29500 does not answer: connection refused"
};

/// One attempt, over by `deadline`.
Connection greet(const links::Address& address, std::string_view token, links::Deadline deadline);
/// As many as it takes; DistributedError, with what came of the last one, after `timeout`.
Connection greet_until_accepted(const links::Address& address, std::string_view token,
                                std::chrono::milliseconds timeout);

/// Keys are up to 4 KiB and values up to 16 MiB (ValueError for more). Any thread may wait for a
/// key while others continue. Every call ends by a deadline: that of get() is its argument, that of
/// the others the constructor's timeout. It does not reconnect: once the server is lost, or its
/// data was modified on the way, every call fails.
class TcpStore final : public Store {
 public:
  /// Retries until a server accepts the token; DistributedError, with the result of the last
  /// attempt, after `timeout`.
  TcpStore(const links::Address& address, std::string_view token,
           std::chrono::milliseconds timeout);
  /// On a connection made by greet().
  TcpStore(Connection connection, const links::Address& address, std::chrono::milliseconds timeout);

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool check(const std::vector<std::string>& keys) override;
  bool erase(const std::string& key) override;
  std::string local_host() const override;
  std::string secret() const override { return secret_; }
  /// The keys that do not exist.
  std::vector<std::string> missing(const std::vector<std::string>& keys);

  const links::Address& address() const { return address_; }
  /// Whether the server is known to be lost.
  bool lost() const;

 private:
  struct Reply {
    protocol::Answer answer;
    std::string value;
  };
  /// `rest` writes the message after the request's number. `asked` is for messages.
  template <class Rest>
  Reply request(protocol::Command command, std::chrono::milliseconds timeout, const char* op,
                const std::string& asked, const Rest& rest);
  Reply wait_for(std::uint32_t id, links::Deadline deadline, std::chrono::milliseconds timeout,
                 const char* op, const std::string& asked);
  void send(const std::string& message, links::Deadline deadline, const char* op,
            const std::string& asked);
  /// With the lock held: reads what there is until `deadline`, and gives the others their replies.
  void read(std::unique_lock<std::mutex>& lock, links::Deadline deadline);
  void take_replies();
  [[noreturn]] void fail_lost(const char* op, const std::string& asked) const;

  const links::Fd fd_;
  const std::unique_ptr<links::SealedChannel>
      channel_;  // the sender uses sealing, the reader opening
  const std::string secret_;
  const links::Address address_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool sending_ = false;  ///< a thread is sending
  bool reading_ = false;  ///< a waiting thread is reading
  bool lost_ = false, changed_on_way_ = false;
  std::uint32_t next_id_ = 0;
  std::string in_;
  std::map<std::uint32_t, std::optional<Reply>> replies_;
};

}  // namespace ferrite::parallel::bootstrap
