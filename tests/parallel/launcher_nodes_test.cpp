// ferrite-run on several nodes, simulated by agents on this machine, and its heartbeat checks.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "ferrite/parallel/comm/bootstrap/rendezvous.h"
#include "ferrite/parallel/launcher/host.h"
#include "ferrite/parallel/launcher/node_messages.h"
#include "ferrite/tests/parallel/cable.h"
#include "ferrite/tests/parallel/launched.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Arguments = std::vector<std::string>;

/// The meeting point of a job's agents.
struct Place {
  std::string port = std::to_string(launcher::free_port());

  /// An agent of a job of two nodes; `extra` comes before the script's shell.
  std::unique_ptr<Launched> agent(int node, const Arguments& extra, const std::string& script,
                                  const Launched::Environment& environment = {}) const {
    return agent_at(port, node, extra, script, environment);
  }
  /// An agent that reaches node 0 through a cable.
  std::unique_ptr<Launched> agent(const Cable& cable, int node, const Arguments& extra,
                                  const std::string& script) const {
    return agent_at(std::to_string(cable.port()), node, extra, script, {});
  }

 private:
  static std::unique_ptr<Launched> agent_at(const std::string& port, int node,
                                            const Arguments& extra, const std::string& script,
                                            const Launched::Environment& environment) {
    Arguments arguments = {"--nnodes=2", "--node-rank=" + std::to_string(node),
                           "--master-addr=127.0.0.1", "--master-port=" + port,
                           "--monitor-interval=0.02"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return std::make_unique<Launched>(with_script(arguments, script), environment);
  }
};

std::string seconds(double plain) { return std::to_string(sanitized() ? 5 * plain : plain); }

/// This test program as a worker that runs a rank function.
Arguments rank_program() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(),
          "--test-case=(a rank's process)", "--no-skip", "--no-version", "--no-intro"};
}

}  // namespace

TEST_CASE("ferrite-run: a message with numbers that its fields cannot hold is refused") {
  using launcher::node_entry_of, launcher::verdict_of;
  const auto entry = [](std::string_view workers) {
    return fmt::format(R"({{"host":"a","workers":{},"next":0,"restarts_used":0}})", workers);
  };
  CHECK(node_entry_of(entry("2147483647")).workers == 2147483647);
  for (const char* workers : {"2e56", "2.5", "2147483648", "-2147483649", "18446744073709551615"})
    CHECK_THROWS_WITH_AS(node_entry_of(entry(workers)), doctest::Contains("'workers'"),
                         DistributedError);
  const auto verdict = [](int kind) {
    return fmt::format(R"({{"kind":{},"first":null,"wait":2.5,"restarts_used":0,"code":0}})", kind);
  };
  CHECK(verdict_of(verdict(2)).wait == 2.5);
  CHECK_THROWS_WITH_AS(verdict_of(verdict(3)), doctest::Contains("kind 3"), DistributedError);
}

TEST_CASE("two nodes number their ranks, fail and restart together") {
  const Place place;
  const std::string script =
      "echo $RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $GROUP_RANK start "
      "$FERRITE_RESTART_COUNT; echo at $MASTER_ADDR:$MASTER_PORT $FERRITE_STORE >&2; "
      "if [ $FERRITE_RESTART_COUNT = 0 ]; then "
      "if [ $RANK = 2 ]; then echo cause >&2; exit 9; fi; exec sleep 1000; fi";
  const auto second = place.agent(1, {"--nproc-per-node=1", "--max-restarts=1"}, script);
  const auto first = place.agent(0, {"--nproc-per-node=2", "--max-restarts=1"}, script);
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(contains(first->out(), "[rank 1] 1/3 local 1/2 node 0 start 1\n"));
  CHECK(contains(second->out(), "[rank 2] 2/3 local 0/1 node 1 start 0\n"));
  CHECK(contains(second->out(), "[rank 2] 2/3 local 0/1 node 1 start 1\n"));
  CHECK(contains(first->err(), " 127.0.0.1:" + place.port + "\n"));
  for (const auto* agent : {first.get(), second.get()}) {
    INFO(agent->err());
    CHECK(contains(agent->err(), "[ferrite-run] rank 2 (node 1, "));
    CHECK(contains(agent->err(), "exited with status 9"));
    CHECK(contains(agent->err(), "[ferrite-run]   cause\n"));
    CHECK(contains(agent->err(), "restart 1 of 1"));
    CHECK(agent->descendants().empty());
  }
  // All agents return the status of the first failure.
  const Place other;
  const auto a = other.agent(0, {}, "exec sleep 1000");
  const auto b = other.agent(1, {}, "kill -ABRT $$");
  CHECK(a->wait() == 128 + SIGABRT);
  CHECK(b->wait() == 128 + SIGABRT);
}

TEST_CASE("agents without a node rank are numbered as they come") {
  const std::string port = std::to_string(launcher::free_port());
  const Arguments options = {"--nnodes=3", "--rdzv_endpoint=localhost:" + port, "--rdzv-id=job",
                             "--monitor-interval=0.02"};
  std::vector<std::unique_ptr<Launched>> agents;
  for (int i = 0; i < 3; ++i)
    agents.push_back(std::make_unique<Launched>(with_script(options, "echo I am $RANK")));
  std::string all;
  for (const auto& agent : agents) {
    CHECK(agent->wait() == 0);
    all += agent->out();
  }
  for (const char* rank : {"I am 0", "I am 1", "I am 2"}) CHECK(contains(all, rank));
}

TEST_CASE("nodes that do not come, come twice or are strangers") {
  {
    const Place place;
    const auto first = place.agent(0, {"--rdzv-timeout=0.5"}, "echo started");
    CHECK(first->wait() == 1);
    CHECK(contains(first->err(), "1 of 2 nodes have not arrived within"));
    CHECK(contains(first->err(), ": 1\n"));
    CHECK(first->out().empty());
  }
  {
    const Place place;
    const auto second = place.agent(1, {"--rdzv-timeout=0.5"}, "echo started");
    CHECK(second->wait() == 1);
    CHECK(contains(second->err(), "the agent of node 0 is not to be reached"));
  }
  const Place place;
  const std::string until_told = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
  const auto first = place.agent(0, {}, until_told);
  const auto second = place.agent(1, {}, until_told);
  CHECK(second->wait_for_output("ready"));
  const auto twice = place.agent(1, {"--rdzv-timeout=" + seconds(2)}, "echo started");
  CHECK(twice->wait() == 1);
  CHECK(contains(twice->err(), "there is a node 1 already"));
  const auto stranger =
      place.agent(1, {"--rdzv-timeout=0.5"}, "echo started", {{"FERRITE_TOKEN", "guessed"}});
  CHECK(stranger->wait() == 1);
  CHECK(contains(stranger->err(), "not to be reached"));
  // A signal to one agent ends the job on both.
  second->signal(SIGTERM);
  CHECK(second->wait() == 0);
  CHECK(first->wait() == 0);
  CHECK(contains(first->err(), "was interrupted by SIGTERM"));
  for (const auto* agent : {first.get(), second.get()}) CHECK(agent->descendants().empty());
}

TEST_CASE("the death of a node's agent is noticed, and another one takes its place") {
  const Place place;
  const std::string script =
      "echo start $FERRITE_RESTART_COUNT; if [ $FERRITE_RESTART_COUNT = 0 ]; then exec sleep 1000; "
      "fi";
  const Arguments options = {"--max-restarts=1", "--heartbeat-timeout=" + seconds(1)};
  const auto first = place.agent(0, options, script);
  const auto second = place.agent(1, options, script);
  CHECK(second->wait_for_output("start 0"));
  CHECK(first->wait_for_output("start 0"));
  second->signal(SIGKILL);
  CHECK(second->wait() == 128 + SIGKILL);
  CHECK(second->nothing_left());
  const auto again = place.agent(1, options, script);
  CHECK(first->wait() == 0);
  CHECK(again->wait() == 0);
  CHECK(contains(first->err(), "its agent has not been heard of for"));
  CHECK(contains(again->out(), "[rank 1] start 1\n"));
}

TEST_CASE("without node 0's agent the others end in time, and report whom they waited for") {
  // If no restart is left, when the silence has lasted long enough; otherwise when the rendezvous
  // times out.
  for (const bool restarts : {false, true}) {
    CAPTURE(restarts);
    const Place place;
    const Arguments options = {"--heartbeat-timeout=" + seconds(1), "--rdzv-timeout=" + seconds(2),
                               restarts ? "--max-restarts=5" : "--max-restarts=0"};
    const auto first = place.agent(0, options, "echo ready; exec sleep 1000");
    const auto second = place.agent(1, options, "echo ready; exec sleep 1000");
    CHECK(first->wait_for_output("ready"));
    CHECK(second->wait_for_output("ready"));
    first->signal(SIGKILL);
    CHECK(first->wait() == 128 + SIGKILL);
    CHECK(second->wait() == 1);
    INFO(second->err());
    CHECK(contains(second->err(),
                   "the agent of node 0, at 127.0.0.1:" + place.port + ", has not answered for"));
    if (restarts) {
      CHECK(contains(second->err(), "restart 1 of 5"));
      CHECK(contains(second->err(),
                     "the agent of node 0 is not to be reached at 127.0.0.1:" + place.port));
      CHECK(contains(second->err(), "(Connection refused). Is it running"));
    }
    CHECK(second->descendants().empty());
    CHECK(first->nothing_left());
  }
}

TEST_CASE("node 0's agent is killed and started again, and the others find it") {
  const Place place;
  const std::string script =
      "echo start $FERRITE_RESTART_COUNT; if [ $FERRITE_RESTART_COUNT -lt 2 ]; then "
      "exec sleep 1000; fi";
  const Arguments options = {"--max-restarts=2", "--heartbeat-timeout=" + seconds(5)};
  const auto second = place.agent(1, options, script);
  for (const char* start : {"] start 0\n", "] start 1\n"}) {
    const auto first = place.agent(0, options, script);
    CHECK(first->wait_for_output(start));
    CHECK(second->wait_for_output(start));
    first->signal(SIGKILL);
    CHECK(first->wait() == 128 + SIGKILL);
  }
  const auto last = place.agent(0, options, script);
  CHECK(last->wait() == 0);
  CHECK(second->wait() == 0);
  INFO(second->err());
  // It does not know the number of starts and of used restarts: node 1 does.
  CHECK(contains(last->out(), "[rank 0] start 2\n"));
  CHECK(contains(second->out(), "[rank 1] start 2\n"));
  CHECK(contains(second->err(), "restart 2 of 2"));
  CHECK(occurrences(second->err(), "was started again") +
            occurrences(second->err(), "not answer") >=
        2);
}

TEST_CASE("a connection of agents that breaks is made again, and the workers notice nothing") {
  const Place place;
  Cable cable(static_cast<std::uint16_t>(std::stoi(place.port)));
  const std::string script = "echo ready; while [ ! -e end ]; do sleep 0.05; done; exit 7";
  const auto first = place.agent(0, {}, "echo ready; exec sleep 1000");
  const auto second = place.agent(cable, 1, {}, script);
  CHECK(second->wait_for_output("ready"));
  for (int i = 0; i < 3; ++i) {
    cable.drop();
    usleep(100'000);
  }
  write_file(second->folder() / "end", "");
  // Its later messages are received.
  CHECK(first->wait() == 7);
  CHECK(second->wait() == 7);
  CHECK(contains(first->err(), "rank 1 (node 1, "));
  CHECK(occurrences(second->out(), "ready") == 1);
}

TEST_CASE("a node that is cut off for longer than the heartbeat's time-out comes back") {
  for (const bool restarted : {false, true}) {
    CAPTURE(restarted);
    const Place place;
    Cable cable(static_cast<std::uint16_t>(std::stoi(place.port)));
    const std::string script =
        "echo start $FERRITE_RESTART_COUNT; if [ $FERRITE_RESTART_COUNT = 0 ]; then "
        "exec sleep 1000; fi";
    const Arguments options = {"--max-restarts=1", "--heartbeat-timeout=" + seconds(2)};
    const auto first = place.agent(0, options, script);
    auto second = place.agent(cable, 1, options, script);
    CHECK(first->wait_for_output("start 0"));
    CHECK(second->wait_for_output("start 0"));
    cable.cut();
    if (restarted) {
      second->signal(SIGKILL);
      CHECK(second->wait() == 128 + SIGKILL);
      second = place.agent(cable, 1, options, script);
    } else {
      CHECK(second->wait_for_output("has not answered for"));
      CHECK(second->wait_for_output("restart 1 of 1"));
    }
    CHECK(first->wait_for_output("its agent has not been heard of for"));
    CHECK(first->wait_for_output("restart 1 of 1"));
    usleep(200'000);
    cable.mend();
    CHECK(first->wait() == 0);
    CHECK(second->wait() == 0);
    INFO(second->err());
    CHECK(contains(first->out(), "[rank 0] start 1\n"));
    CHECK(contains(second->out(), "[rank 1] start 1\n"));
  }
}

TEST_CASE("other nodes do not wait for a node that has left its round") {
  // Node 0 has the longer timeout here: it learns from node 1 that there are no workers any more.
  const Place place;
  Cable cable(static_cast<std::uint16_t>(std::stoi(place.port)));
  const std::string script =
      "echo start $FERRITE_RESTART_COUNT; if [ $FERRITE_RESTART_COUNT = 0 ]; then "
      "exec sleep 1000; fi";
  const auto first = place.agent(0, {"--max-restarts=1", "--heartbeat-timeout=300"}, script);
  const auto second =
      place.agent(cable, 1, {"--max-restarts=1", "--heartbeat-timeout=" + seconds(2)}, script);
  CHECK(first->wait_for_output("start 0"));
  CHECK(second->wait_for_output("start 0"));
  cable.cut();
  CHECK(second->wait_for_output("restart 1 of 1"));
  cable.mend();
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  CHECK(contains(first->err(), "node 1 ("));
  CHECK(contains(first->err(), "has not answered for"));
  CHECK(contains(second->out(), "[rank 1] start 1\n"));
}

TEST_CASE("a node that is cut off as the job ends hears of it") {
  const Place place;
  Cable cable(static_cast<std::uint16_t>(std::stoi(place.port)));
  const Arguments options = {"--heartbeat-timeout=" + seconds(1)};
  const auto first = place.agent(0, options, "echo ready; while [ ! -e end ]; do sleep 0.05; done");
  const auto second = place.agent(cable, 1, options, "echo ready");
  CHECK(second->wait_for_output("ready"));
  CHECK(first->wait_for_output("ready"));
  usleep(300'000);  // until it has reported success
  cable.cut();
  write_file(first->folder() / "end", "");
  usleep(2'000'000);
  cable.mend();
  CHECK(first->wait() == 0);
  CHECK(second->wait() == 0);
  // The same with an agent that was killed and restarted.
  const Place other;
  const auto a = other.agent(0, {}, "echo ready; while [ ! -e end ]; do sleep 0.05; done");
  const auto b = other.agent(1, {}, "echo ready");
  CHECK(a->wait_for_output("ready"));
  CHECK(b->wait_for_output("ready"));
  usleep(1'000'000);
  b->signal(SIGKILL);
  CHECK(b->wait() == 128 + SIGKILL);
  write_file(a->folder() / "end", "");
  const auto again = other.agent(1, {}, "echo not to be started");
  CHECK(again->wait() == 0);
  CHECK(a->wait() == 0);
  CHECK(contains(again->err(), "the job has ended well"));
  CHECK(again->out().empty());
}

TEST_CASE("a node that has done its part and is cut off can be interrupted") {
  const Place place;
  Cable cable(static_cast<std::uint16_t>(std::stoi(place.port)));
  const auto first = place.agent(0, {"--heartbeat-timeout=" + seconds(1)}, "exec sleep 1000");
  const auto second = place.agent(cable, 1, {"--heartbeat-timeout=" + seconds(1)}, "echo ready");
  CHECK(second->wait_for_output("ready"));
  usleep(300'000);
  cable.cut();
  usleep(300'000);
  second->signal(SIGTERM);
  CHECK(second->wait() == 0);
  CHECK(contains(second->err(), "was interrupted by SIGTERM"));
  CHECK(first->wait() == 1);
  CHECK(contains(first->err(), "its agent has not been heard of for"));
}

TEST_CASE("an agent of node 0 that is interrupted before a round begins tells the others") {
  const Place place;
  const Arguments three = {"--nnodes=3"};
  const auto first = place.agent(0, three, "echo started");
  const auto second = place.agent(1, three, "echo started");
  usleep(500'000);
  first->signal(SIGTERM);
  CHECK(first->wait() == 128 + SIGTERM);
  CHECK(second->wait() == 1);
  CHECK(contains(second->err(), "the agent of node 0 was interrupted"));
  CHECK(second->out().empty());
}

RANK_FUNCTION(meet_and_stop_once) {
  const auto meeting = parallel::rendezvous({.timeout = std::chrono::seconds(60)});
  const bool first = environment_or("FERRITE_RESTART_COUNT", "") == "0";
  CHECK(meeting->place().world_size == 2);
  say("met");
  if (first && rank_of_process() == 1) raise(SIGSTOP);
  if (first) meeting->store()->get("never", std::chrono::seconds(60));
  say("done");
}

TEST_CASE("a rank that stops answering is named, and the job started again") {
  Arguments arguments = {"--nproc-per-node=2", "--max-restarts=1", "--monitor-interval=0.02",
                         "--heartbeat-timeout=" + seconds(4)};
  for (const std::string& a : rank_program()) arguments.push_back(a);
  const LaunchResult run =
      launch(arguments, {{"FERRITE_TEST_RANK_FUNCTION", "meet_and_stop_once"}});
  INFO(run.out, run.err);
  CHECK(run.code == 0);
  CHECK(contains(run.err, "[ferrite-run] rank 1 ("));
  CHECK(contains(run.err, "has not answered for"));
  CHECK(contains(run.err, "restart 1 of 1"));
  CHECK(occurrences(run.out, "] done") == 2);
  arguments[1] = "--max-restarts=0";
  CHECK(launch(arguments, {{"FERRITE_TEST_RANK_FUNCTION", "meet_and_stop_once"}}).code == 124);
}

RANK_FUNCTION(meet_and_lose_one) {
  const auto meeting = parallel::rendezvous({.timeout = std::chrono::seconds(60)});
  if (rank_of_process() == 1) raise(SIGKILL);
  std::atomic<bool> lost = false;
  meeting->monitor()->watch("group", [&](const std::string&) { lost = true; });
  while (!lost) usleep(1000);
  _exit(3);
}

TEST_CASE("a rank that was killed goes before those that fail for want of it") {
  for (int i = 0; i < 5; ++i) {
    Arguments arguments = {"--nproc-per-node=3"};
    for (const std::string& a : rank_program()) arguments.push_back(a);
    const LaunchResult run =
        launch(arguments, {{"FERRITE_TEST_RANK_FUNCTION", "meet_and_lose_one"}});
    INFO(run.err);
    CHECK(run.code == 128 + SIGKILL);
    CHECK(contains(run.err, "[ferrite-run] rank 1 ("));
  }
}

/// Rank 1 fails, and its process ends after those of the others, which fail because of it.
RANK_FUNCTION(meet_and_fail_slowly) {
  const auto meeting = parallel::rendezvous({.timeout = std::chrono::seconds(60)});
  const int others = ranks_of_job() - 1;
  if (rank_of_process() == 1) {
    while (meeting->store()->add("watching", 0) < others) usleep(1000);
    meeting->monitor()->report_failure("group", "rank 1 failed");
    usleep(700'000);
    _exit(3);
  }
  std::atomic<bool> failed = false;
  meeting->monitor()->watch("group", [&](const std::string&) { failed = true; });
  meeting->store()->add("watching", 1);
  while (!failed) usleep(1000);
  if (rank_of_process() == 0) std::abort();
  _exit(9);
}

TEST_CASE("a rank that fails goes before those that fail because of it, and end earlier") {
  const Launched::Environment environment = {
      {"FERRITE_TEST_RANK_FUNCTION", "meet_and_fail_slowly"}};
  Arguments arguments = {"--nproc-per-node=3"};
  for (const std::string& a : rank_program()) arguments.push_back(a);
  const LaunchResult run = launch(arguments, environment);
  INFO(run.err);
  CHECK(run.code == 3);
  CHECK(contains(run.err, "[ferrite-run] rank 1 ("));

  // On two nodes, of which only the first serves the store.
  const std::string port = std::to_string(launcher::free_port());
  std::vector<std::unique_ptr<Launched>> agents;
  for (const char* node : {"0", "1"}) {
    arguments = {"--nnodes=2", "--master-addr=127.0.0.1", "--monitor-interval=0.02"};
    arguments.push_back("--master-port=" + port);
    arguments.push_back(std::string("--node-rank=") + node);
    for (const std::string& a : rank_program()) arguments.push_back(a);
    agents.push_back(std::make_unique<Launched>(arguments, environment));
  }
  for (const auto& agent : agents) {
    const int code = agent->wait();
    INFO(agent->err());
    CHECK(code == 3);
    CHECK(contains(agent->err(), "[ferrite-run] rank 1 (node 1"));
    CHECK(agent->nothing_left());
  }
}
