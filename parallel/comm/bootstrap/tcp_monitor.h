// The monitor between processes: a heartbeat with the store's server, on a separate connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ferrite/parallel/comm/bootstrap/monitor.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

struct TcpMonitorOptions {
  std::string run;  ///< which start of the job; monitors of different runs are independent
  int rank = 0, world_size = 1;
  /// Ranks that are silent for this long are considered lost.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string server_owner;  ///< the serving process, for messages: "rank 0"
};

/// The others consider a rank lost at once if it ends without leave(), because its connection
/// breaks; a rank that is stopped, or cut off from the network, once it has been silent for the
/// timeout, and blame() names it before. The server reports the first loss; failures caused by it
/// do not replace it.
class TcpMonitor final : public Monitor {
 public:
  /// DistributedError if no server accepts the token within the timeout.
  TcpMonitor(const links::Address& server, std::string_view token, TcpMonitorOptions options);
  ~TcpMonitor() override;  ///< leaves

  void begin(const std::string& group, std::uint64_t sequence, std::string_view op) override;
  void end(const std::string& group, std::uint64_t sequence) override;
  void report_failure(const std::string& group, std::string_view reason) override;
  void watch(const std::string& group, std::function<void(const std::string& reason)> f) override;
  void unwatch(const std::string& group) override;
  std::string blame(const std::string& group, std::uint64_t sequence) override;

  /// Says goodbye; nothing is watched or reported afterwards.
  void leave();

  /// Interval of heartbeats: an eighth of the timeout, 20 ms to 500 ms.
  static std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::parallel::bootstrap
