// The server's knowledge of the ranks: when each was last heard, what it does, which was lost
// first. No sockets and no threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/store_table.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"

namespace ferrite::parallel::bootstrap {

class MonitorTable {
 public:
  explicit MonitorTable(SendTo send) : send_(std::move(send)) {}

  static bool is_command(std::uint8_t command);
  /// Processes the message; false if it is malformed or not permitted for this client.
  bool handle(ClientId client, protocol::Command command, protocol::Reader& message, TimePoint now);
  /// A rank whose connection ends without a goodbye is lost.
  void disconnected(ClientId client, TimePoint now);
  /// Finds ranks that have been silent too long, and answers questions that have waited long
  /// enough. Returns the time of the next call.
  TimePoint tick(TimePoint now);
  /// The server was stopped for this long: do not count it as silence of the ranks.
  void forgive(std::chrono::steady_clock::duration pause);
  /// Tells all ranks that the server ends.
  void close();

  /// Number of ranks that are neither lost nor gone.
  std::size_t present() const;
  std::vector<PresentRank> present_ranks(TimePoint now) const;
  /// Ranks that were told of another rank's loss or failure, or that had an operation fail because
  /// of another rank, and when. They are kept after the end of their run, until they join again.
  const std::map<int, TimePoint>& affected() const { return affected_; }

 private:
  using Duration = std::chrono::steady_clock::duration;

  /// A rank's last operation in a group.
  struct Operation {
    std::uint64_t sequence = 0;
    std::string op;  ///< empty: the rank is in the group, but has begun nothing
    bool running = false;
    TimePoint since{};  ///< when it was begun, or ended
  };
  enum class State : std::uint8_t { absent, present, left, lost };
  struct Rank {
    State state = State::absent;
    ClientId client = 0;
    std::string who;  ///< "host, process 123"
    TimePoint heard{};
    TimePoint changed{};                          ///< when it left or was lost
    std::map<std::string, Operation> operations;  // by group
  };
  /// A report of a failure, held back briefly: a loss that explains it may become known.
  struct Failure {
    int reporter = 0;
    std::string reason;
    TimePoint tell_at{};
    bool told = false;
  };
  struct Question {
    ClientId client = 0;
    int asker = 0;
    std::uint32_t request = 0;
    std::string group;
    std::uint64_t sequence = 0;
    TimePoint asked{};
    bool judged = false;  ///< all ranks have reported since, which gave no verdict
  };
  struct Run {
    std::string name;
    Duration timeout{}, interval{};
    std::vector<Rank> ranks;
    std::string first_loss;                   ///< empty if none was lost
    std::map<std::string, Failure> failures;  // by group
    bool new_failures = false;                ///< since questions were last compared with them
    std::deque<Question> questions;           ///< as they were asked; judged ones come first
  };
  struct RankOfClient {
    Run* run;
    int rank;
  };

  bool join(ClientId client, protocol::Reader& message, TimePoint now);
  bool beat(Run& run, int rank, protocol::Reader& message, TimePoint now);
  bool leave(ClientId client, Run& run, int rank, TimePoint now);
  bool failure(Run& run, int rank, protocol::Reader& message, TimePoint now);
  bool blame(ClientId client, Run& run, int rank, protocol::Reader& message, TimePoint now);

  void lose(Run& run, int rank, std::string reason, TimePoint now);
  void tell_failure(const Run& run, const std::string& group, Failure& failure, TimePoint now);
  void tell(const Run& run, const std::string& message, int except = -1);
  void mark_affected(const Run& run, int cause, TimePoint now);
  void answer(Run& run, TimePoint now);
  void answer(const Question& question, const std::string& words, TimePoint now);
  void forget_if_over(Run& run);
  TimePoint tick(Run& run, TimePoint now);

  // The text of the answer.
  static std::string certainty(const Run& run, const Question& question);
  static std::string verdict(const Run& run, const Question& question, TimePoint now);
  static std::string departures(const Run& run, const Question& question, TimePoint now);
  static std::string silences(const Run& run, const Question& question, TimePoint now);
  static std::string laggards(const Run& run, const Question& question, TimePoint now);
  static std::string others_calls(const Run& run, const Question& question);
  static std::string last_operation(const Rank& rank, const std::string& group, TimePoint now);

  const SendTo send_;
  std::map<std::string, Run> runs_;
  std::unordered_map<ClientId, RankOfClient> rank_of_client_;
  std::map<int, TimePoint> affected_;
};

}  // namespace ferrite::parallel::bootstrap
