// The monitor between processes: a heartbeat with the store's server, on a separate connection.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
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
  using Clock = std::chrono::steady_clock;
  using Watcher = std::function<void(const std::string&)>;
  struct Operation {
    std::uint64_t sequence = 0;
    std::string op;
    bool running = false;
    bool changed = true;  ///< since the last beat
    Clock::time_point since{};
  };
  struct Call {
    std::string group, reason;
    Watcher f;
  };

  void join();
  void beat_until_left();
  bool send_due(Clock::time_point now);
  /// False if the connection has ended.
  bool receive();
  /// Reads the server's frames that have arrived into in_.
  enum class Read : std::uint8_t { something, nothing, end, changed };
  Read read_more();
  void handle(std::string_view message);
  void check_silence(Clock::time_point now);
  void lose_server(const std::string& how);
  std::string beat(Clock::time_point now);
  std::string silence_text(Clock::time_point now) const;
  /// With the lock held: has the watchers called, those of all groups if `group` is null.
  void call_watchers(const std::string* group, const std::string& reason);
  void run_calls();
  void wake();

  const TcpMonitorOptions options_;
  const links::Address server_;
  const std::chrono::milliseconds interval_;
  Connection connection_;
  const links::Fd waker_;
  // Used by the thread only:
  std::string in_;
  bool left_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Operation> operations_;  // by group
  std::vector<std::string> forgotten_;
  std::string outbox_;
  std::uint64_t queued_ = 0, sent_ = 0;  // messages
  bool report_now_ = true;
  bool leaving_ = false, ended_ = false;
  std::string lost_;         ///< the reason, once a rank was lost
  std::string server_gone_;  ///< the reason, once the server is lost
  std::optional<Clock::time_point> unanswered_since_;
  Clock::time_point heard_{};
  std::uint32_t next_question_ = 0;
  std::map<std::uint32_t, std::optional<std::string>> answers_;

  std::map<std::string, Watcher> watchers_;
  std::deque<Call> calls_;
  std::string in_call_of_;  ///< the group whose watcher is running
  bool stop_calls_ = false;
  std::thread caller_;  // started by the first watch()
  std::thread thread_;
};

}  // namespace ferrite::parallel::bootstrap
