// The server's table of ranks: which ranks are found to be lost, stopped or late, the messages, and
// their receivers; with the test's own clock.
#include "ferrite/parallel/comm/bootstrap/monitor_table.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/tests/parallel/launcher_environment.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using test::contains;
using namespace std::chrono_literals;
using bootstrap::protocol::Answer;
using bootstrap::protocol::Command;
using bootstrap::protocol::Reader;
using bootstrap::protocol::Writer;

class TableJob {
 public:
  explicit TableJob(int ranks, std::chrono::milliseconds timeout = 8s)
      : table_([this](bootstrap::ClientId client, std::string message) {
          const bootstrap::protocol::Reader whole(std::string_view(message).substr(4));
          bootstrap::protocol::Reader reader = whole;
          const auto answer = reader.number<bootstrap::protocol::Answer>();
          if (answer == bootstrap::protocol::Answer::lost)
            told[client].push_back(std::string(reader.text(99999)));
          if (answer == bootstrap::protocol::Answer::failed) {
            std::string group(reader.text(99999));
            told[client].push_back(group + ": " + std::string(reader.text(99999)));
          }
          if (answer == bootstrap::protocol::Answer::report) ++asked[client];
          if (answer == bootstrap::protocol::Answer::blamed) {
            reader.number<std::uint32_t>();
            blamed[client].push_back(std::string(reader.text(99999)));
          }
        }) {
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(say(rank, bootstrap::protocol::Writer(bootstrap::protocol::Command::join)
                          .text("run")
                          .number(static_cast<std::uint32_t>(rank))
                          .number(static_cast<std::uint32_t>(ranks))
                          .number(static_cast<std::uint32_t>(timeout.count()))
                          .number(500u)
                          .text("host")));
      beat(rank);
    }
  }

  bool say(int rank, bootstrap::protocol::Writer message) {
    const std::string bytes = message.take();
    bootstrap::protocol::Reader reader(std::string_view(bytes).substr(4));
    const auto command = reader.number<bootstrap::protocol::Command>();
    return table_.handle(client(rank), command, reader, now);
  }
  bool beat(int rank) {
    return say(rank, bootstrap::protocol::Writer(bootstrap::protocol::Command::beat).number(0u));
  }
  bool report(int rank, const std::string& group, std::uint64_t sequence, const std::string& op,
              bool running, std::chrono::microseconds age = 0s) {
    return say(rank, bootstrap::protocol::Writer(bootstrap::protocol::Command::beat)
                         .number(1u)
                         .text(group)
                         .number(std::uint8_t{1})
                         .number(sequence)
                         .text(op)
                         .number(static_cast<std::uint8_t>(running))
                         .number(static_cast<std::uint64_t>(age.count())));
  }
  bool fail(int rank, const std::string& group, const std::string& reason) {
    return say(rank, bootstrap::protocol::Writer(bootstrap::protocol::Command::failure)
                         .text(group)
                         .text(reason));
  }
  /// The answer within the time that others have to report.
  std::string blame(int rank, std::uint64_t sequence, const std::vector<int>& answering,
                    const std::string& group = "default") {
    say(rank, bootstrap::protocol::Writer(bootstrap::protocol::Command::blame)
                  .number(1u)
                  .text(group)
                  .number(sequence));
    pass(10ms);
    for (const int other : answering) beat(other);
    for (int i = 0; i < 30 && blamed[client(rank)].empty(); ++i) pass(10ms);
    REQUIRE(blamed[client(rank)].size() == 1);
    std::string out = blamed[client(rank)][0];
    blamed.clear();
    return out;
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    table_.tick(now);
  }
  void vanish(int rank) { table_.disconnected(client(rank), now); }
  bootstrap::MonitorTable& table() { return table_; }
  static bootstrap::ClientId client(int rank) {
    return static_cast<bootstrap::ClientId>(100 + rank);
  }
  const std::vector<std::string>& heard(int rank) { return told[client(rank)]; }

  bootstrap::TimePoint now = bootstrap::TimePoint() + 1h;
  std::map<bootstrap::ClientId, std::vector<std::string>> told, blamed;
  std::map<bootstrap::ClientId, int> asked;

 private:
  bootstrap::MonitorTable table_;
};

const std::string kSum = "all_reduce(sum) of float32[1024]";

TEST_CASE("a rank that ends without a goodbye is lost at once, and all hear it") {
  TableJob job(3);
  job.report(2, "default", 57, kSum, true, 200ms);
  job.vanish(2);
  for (int rank : {0, 1}) {
    REQUIRE(job.heard(rank).size() == 1);
    CHECK(contains(job.heard(rank)[0], "rank 2 was lost: its process (host) ended"));
    CHECK(contains(job.heard(rank)[0], kSum + " number 57 of group default, begun 0.2 s ago"));
  }
  CHECK(job.blame(0, 57, {}) == job.heard(0)[0]);
  // What it did after its last report is not known.
  TableJob early(2);
  early.report(1, "default", 0, "", false);
  early.vanish(1);
  REQUIRE(early.heard(0).size() == 1);
  CHECK(contains(early.heard(0)[0], "; it had reported no operation"));
  // Ranks that are lost later are not to blame.
  job.vanish(1);
  CHECK(job.heard(0).size() == 1);
  CHECK(contains(job.blame(0, 57, {}), "rank 2 was lost"));
  CHECK(job.table().present() == 1);
}

TEST_CASE("a rank that says goodbye is not lost, and is blamed only if others wait for it") {
  TableJob job(3);
  for (int rank = 0; rank < 3; ++rank) job.report(rank, "default", 7, kSum, false);
  job.report(0, "default", 8, "barrier", true);
  job.pass(1s);
  CHECK(job.say(1, bootstrap::protocol::Writer(bootstrap::protocol::Command::leave)));
  job.vanish(1);
  job.pass(2s);
  CHECK(job.heard(0).empty());
  job.report(2, "default", 8, "barrier", true);
  const std::string words = job.blame(0, 8, {0, 2});
  CHECK(contains(words, "rank 1 has left the job 2.0 s ago: its last operation is " + kSum +
                            " number 7, ended 3.0 s ago"));
  CHECK(job.blame(0, 7, {0, 2}).empty());
  CHECK_FALSE(job.beat(1));
}

TEST_CASE("a rank that is silent is named, and lost after the timeout") {
  TableJob job(3, 8s);
  for (int rank = 0; rank < 3; ++rank) job.report(rank, "default", 3, kSum, rank != 2);
  job.pass(3s);
  job.beat(0);
  job.beat(1);
  const std::string words = job.blame(0, 3, {0, 1});
  CHECK(contains(words, "rank 2 (host) stopped answering 3."));
  CHECK(contains(words, "the last operation that it reported is " + kSum +
                            " number 3 of group default, ended 3."));
  CHECK(job.asked[TableJob::client(1)] == 1);
  for (int i = 0; i < 10; ++i) {
    job.pass(500ms);
    job.beat(0);
    job.beat(1);
  }
  REQUIRE(job.heard(0).size() == 1);
  CHECK(contains(job.heard(0)[0], "rank 2 (host) stopped answering 8."));
  // It is told so itself if it returns.
  CHECK(job.heard(2).size() == 1);
}

TEST_CASE("time during which the server was stopped does not count as silence") {
  TableJob job(2, 8s);
  job.now += 1h;
  job.table().forgive(1h);
  job.pass(1ms);
  CHECK(job.heard(0).empty());
  job.pass(9s);
  CHECK(job.heard(0).size() == 1);
}

TEST_CASE("ranks that have not begun the operation are named, with their current one") {
  TableJob job(12);
  for (int rank = 0; rank < 12; ++rank) job.report(rank, "default", 5, kSum, false);
  job.pass(4s);
  for (int rank = 0; rank < 12; ++rank) {
    if (rank != 3) job.report(rank, "default", 6, "broadcast from rank 0 of uint8[3]", true);
  }
  job.report(3, "default/1", 2, "barrier", true);
  job.pass(100ms);
  std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  CHECK(contains(job.blame(0, 6, all),
                 "rank 3 has not begun it: its last operation is " + kSum +
                     " number 5, ended 4.1 s ago, and it is in barrier number 2 of group "
                     "default/1 since 0.1 s"));
  // Only some of many are named.
  CHECK(contains(job.blame(0, 7, all), "rank 7 has not begun it"));
  CHECK(contains(job.blame(0, 7, all), "; nor have 4 others"));
  // For another group only its members count.
  job.report(4, "default/1", 3, "barrier", true);
  CHECK(contains(job.blame(4, 3, all, "default/1"), "rank 3 has not begun it"));
  CHECK(job.blame(4, 3, all, "default/1").find("rank 0") == std::string::npos);
}

TEST_CASE("ranks that have begun something else are told apart from those that agree") {
  TableJob job(3);
  job.report(0, "default", 6, kSum, true);
  job.report(1, "default", 6, "broadcast from rank 0 of uint8[3]", true);
  job.report(2, "default", 6, kSum, true);
  const std::string words = job.blame(0, 6, {0, 1, 2});
  CHECK(contains(words,
                 "rank 1 has begun broadcast from rank 0 of uint8[3] as number 6, not " + kSum));
  CHECK(words.find("rank 2") == std::string::npos);
  job.report(1, "default", 6, kSum, true);
  CHECK(job.blame(0, 6, {0, 1, 2}).empty());
}

TEST_CASE("a failure is told to the others of the run, and a loss that explains it goes before") {
  TableJob job(3);
  job.fail(1, "default", "no reason");
  CHECK(job.heard(0).empty());
  job.pass(300ms);
  CHECK(job.heard(0) == std::vector<std::string>{"default: no reason"});
  CHECK(job.heard(1).empty());
  CHECK(job.heard(2) == job.heard(0));
  job.fail(2, "default", "another");
  job.pass(300ms);
  CHECK(job.heard(0).size() == 1);
  // A rank that is lost as a consequence is not the cause.
  job.vanish(1);
  REQUIRE(job.heard(0).size() == 2);
  CHECK(contains(job.heard(0)[1], "rank 1 was lost"));
  CHECK(contains(job.heard(0)[1], "after rank 1 had reported: no reason"));

  TableJob other(3);
  other.fail(1, "default", "connection closed");
  other.pass(100ms);
  other.vanish(2);
  other.pass(300ms);
  REQUIRE(other.heard(0).size() == 1);
  CHECK(contains(other.heard(0)[0], "rank 2 was lost"));
  CHECK(other.heard(0)[0].find("connection closed") == std::string::npos);

  // A rank that ends right after its own report ends because of it.
  TableJob ends(3);
  ends.fail(1, "default", "the ranks disagree");
  ends.vanish(1);
  REQUIRE(ends.heard(0).size() == 2);
  CHECK(ends.heard(0)[0] == "default: the ranks disagree");
  CHECK(contains(ends.heard(0)[1], "rank 1 was lost"));
}

TEST_CASE("a question waits a moment for the news that answers it") {
  TableJob job(3);
  for (int rank = 0; rank < 3; ++rank) job.report(rank, "default", 1, kSum, true);
  job.say(0, bootstrap::protocol::Writer(bootstrap::protocol::Command::blame)
                 .number(1u)
                 .text("default")
                 .number(std::uint64_t{1}));
  job.pass(50ms);
  CHECK(job.blamed.empty());
  job.vanish(2);
  job.pass(1ms);
  REQUIRE(job.blamed[TableJob::client(0)].size() == 1);
  CHECK(contains(job.blamed[TableJob::client(0)][0], "rank 2 was lost"));
}

TEST_CASE("each of several questions is answered when its news come, the others at last") {
  TableJob job(3);
  const auto ask = [&](int rank, std::uint32_t request, const char* group) {
    job.say(rank, Writer(Command::blame).number(request).text(group).number(std::uint64_t{1}));
  };
  const auto answers = [&](int rank) { return job.blamed[TableJob::client(rank)]; };
  for (int rank = 0; rank < 3; ++rank)
    for (const char* group : {"a", "b"}) job.report(rank, group, 1, kSum, true);
  ask(0, 1, "a");
  ask(1, 2, "b");
  ask(2, 3, "a");
  job.pass(10ms);
  ask(0, 4, "b");
  // All have reported since, which tells nothing.
  for (int rank = 0; rank < 3; ++rank) job.beat(rank);
  job.pass(10ms);
  CHECK(job.blamed.empty());
  // A report of a failure answers questions about its group, though not that rank's own.
  job.fail(2, "a", "no space left");
  job.pass(10ms);
  CHECK(answers(0) == std::vector<std::string>{"no space left"});
  CHECK(answers(1).empty());
  CHECK(answers(2).empty());
  job.fail(0, "b", "out of memory");
  job.pass(10ms);
  CHECK(answers(1) == std::vector<std::string>{"out of memory"});
  // The rest have waited long enough, those that were asked first before the others.
  job.pass(211ms);
  CHECK(answers(2) == std::vector<std::string>{""});
  CHECK(answers(0).size() == 1);
  job.pass(10ms);
  CHECK(answers(0) == std::vector<std::string>{"no space left", ""});
}

TEST_CASE("ranks that are affected by another one are told apart from the cause") {
  const auto affected = [](TableJob& job) {
    std::vector<int> ranks;
    for (const auto& [rank, since] : job.table().affected()) ranks.push_back(rank);
    return ranks;
  };
  using Ranks = std::vector<int>;
  TableJob job(3);
  CHECK(affected(job).empty());
  job.vanish(1);
  CHECK(affected(job) == Ranks{0, 2});
  job.vanish(0);
  job.vanish(2);
  CHECK(affected(job) == Ranks{0, 2});  // known after the end of the run

  // The cause reports its failure, and ends after one of the others.
  TableJob slow(3);
  slow.fail(1, "default", "an exception was thrown");
  slow.pass(300ms);
  slow.vanish(0);
  CHECK(affected(slow) == Ranks{0, 2});

  // The cause says goodbye, and one of the others asks what happened.
  TableJob polite(3);
  for (int rank = 0; rank < 3; ++rank) polite.report(rank, "default", 1, kSum, rank != 1);
  polite.say(1, bootstrap::protocol::Writer(bootstrap::protocol::Command::leave));
  CHECK(affected(polite).empty());
  polite.blame(0, 2, {2});
  CHECK(affected(polite) == Ranks{0});
  polite.fail(0, "default", "connection closed");
  polite.vanish(0);
  CHECK(affected(polite) == Ranks{0, 2});

  // A rank whose operation fails for a reason of its own.
  TableJob own(2);
  for (int rank = 0; rank < 2; ++rank) own.report(rank, "default", 1, kSum, true);
  own.blame(1, 1, {0, 1});
  CHECK(affected(own).empty());
  own.fail(1, "default", "out of memory");
  own.vanish(1);
  CHECK(affected(own) == Ranks{0});
}

TEST_CASE("invalid messages are rejected") {
  TableJob job(2);
  const auto join = [](const char* run, std::uint32_t rank, std::uint32_t size) {
    return bootstrap::protocol::Writer(bootstrap::protocol::Command::join)
        .text(run)
        .number(rank)
        .number(size)
        .number(8000u)
        .number(500u)
        .text("x");
  };
  bootstrap::protocol::Writer twice = join("run", 0, 2), large = join("run", 2, 3),
                              outside = join("new", 2, 2), huge = join("new", 0, 1u << 30),
                              fresh = join("new", 1, 2);
  CHECK_FALSE(job.say(0, twice));
  CHECK_FALSE(job.say(50, large));
  CHECK_FALSE(job.say(51, outside));
  CHECK_FALSE(job.say(52, huge));
  CHECK_FALSE(job.beat(53));  // that never joined
  CHECK(job.say(54, fresh));
  job.vanish(54);  // of another run, without effect here
  CHECK(job.heard(0).empty());
  CHECK(job.table().present() == 2);
}

}  // namespace
