// ferrite-run on one node: options, environment, output, exits, signals.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/core/version.h"
#include "ferrite/parallel/launcher/options.h"
#include "ferrite/parallel/launcher/restart_policy.h"
#include "ferrite/tests/parallel/launched.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::test;
using launcher::Options;
using launcher::parse_options;
using launcher::Streams;

namespace {

/// The error of parse_options() for these arguments.
std::string refusal(std::vector<std::string> arguments) {
  arguments.push_back("program");
  try {
    parse_options(arguments);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("options are torchrun's, with - and _, and end at the program") {
  const Options o = parse_options({"--nproc_per_node=4", "--nnodes", "2", "--node-rank=1",
                                   "--master_addr=host", "--master-port", "1234", "--max_restarts",
                                   "3", "-t", "0:3,1:2", "-r1", "--local-ranks-filter=0,2",
                                   "--no-python", "train", "--nproc-per-node=9", "--help"});
  CHECK(o.nproc_per_node == 4);
  CHECK(o.nnodes == 2);
  CHECK(o.node_rank == 1);
  CHECK(o.master_addr == "host");
  CHECK(o.master_port == 1234);
  CHECK(o.max_restarts == 3);
  CHECK(o.tee.of(0) == Streams::both);
  CHECK(o.tee.of(1) == Streams::err);
  CHECK(o.tee.of(2) == Streams::none);
  CHECK(o.redirects.of(7) == Streams::out);
  CHECK(*o.local_ranks_filter == std::vector<int>{0, 2});
  CHECK(o.command == std::vector<std::string>{"train", "--nproc-per-node=9", "--help"});
  CHECK(parse_options({"--standalone", "--", "--odd"}).command ==
        std::vector<std::string>{"--odd"});
  CHECK(parse_options({"--nproc-per-node=cpu", "x"}).nproc_per_node >= 1);
  CHECK(parse_options({"--nproc-per-node=auto", "x"}).nproc_per_node >= 1);
  CHECK(parse_options({"--nnodes=2:2", "--rdzv-endpoint=h:1", "--rdzv-backend=c10d", "x"}).nnodes ==
        2);
  CHECK(parse_options({"--heartbeat-timeout=2.5", "x"}).heartbeat_timeout == 2.5);
  CHECK(parse_options({"-h"}).help);
  for (const char* option : {"--nproc-per-node", "--rdzv-endpoint", "--max-restarts", "--log-dir"})
    CHECK(contains(launcher::help_text(), option));

  setenv("PET_NPROC_PER_NODE", "3", 1);
  setenv("PET_STANDALONE", "1", 1);
  CHECK(parse_options({"x"}).nproc_per_node == 3);
  CHECK(parse_options({"x"}).standalone);
  CHECK(parse_options({"--nproc-per-node=5", "x"}).nproc_per_node == 5);
  setenv("PET_NNODES", "1:4", 1);  // a range, which only torchrun takes
  CHECK_THROWS_AS(parse_options({"x"}), ValueError);
  CHECK(parse_options({"--nnodes=1", "x"}).nnodes == 1);
  unsetenv("PET_NNODES");
  unsetenv("PET_NPROC_PER_NODE");
  unsetenv("PET_STANDALONE");

  const auto v6 = launcher::parse_endpoint("--x", "[::1]:80");
  CHECK(v6.host == "::1");
  CHECK(v6.port == 80);
  CHECK_FALSE(launcher::parse_endpoint("--x", "host").port);
}

TEST_CASE("errors for bad options say what is expected") {
  CHECK(contains(refusal({"--nproc-per-node=0"}), "1 or more, cpu, gpu or auto, got '0'"));
  CHECK(contains(refusal({"--nproc-per-node=2x"}), "got '2x'"));
  CHECK(contains(refusal({"--nproc-per-node="}), "got an empty one"));
  CHECK(contains(refusal({"--nprocs=2"}), "there is no option --nprocs"));
  CHECK(contains(refusal({"-x"}), "there is no option -x"));
  CHECK(contains(refusal({"--standalone=1"}), "takes no value"));
  CHECK(contains(refusal({"--nnodes=1:4"}), "cannot change"));
  CHECK(contains(refusal({"--nnodes=2"}), "needs --node-rank"));
  CHECK(contains(refusal({"--nnodes=2", "--node-rank=0"}), "needs --master-addr"));
  CHECK(contains(refusal({"--nnodes=2", "--node-rank=2", "--master-addr=h"}), "from 0"));
  CHECK(contains(refusal({"--nnodes=2", "--standalone"}), "one node"));
  CHECK(contains(refusal({"--nnodes=2", "--node-rank=0", "--master-addr=h", "--master-port=0"}),
                 "that other nodes know"));
  CHECK(contains(refusal({"--master-port=70000"}), "65535"));
  CHECK(contains(refusal({"--rdzv-endpoint=:3"}), "HOST:PORT"));
  CHECK(contains(refusal({"--rdzv-endpoint=h:3", "--master-addr=h"}), "exclude each other"));
  CHECK(contains(refusal({"--max-restarts=-1"}), "0 or more"));
  CHECK(contains(refusal({"--restart-backoff=9", "--restart-backoff-max=2"}), "is above"));
  CHECK(contains(refusal({"--heartbeat-timeout=nan"}), "seconds"));
  CHECK(contains(refusal({"--rdzv_backend=etcd"}), "c10d or static"));
  CHECK(contains(refusal({"--tee=4"}), "RANK:N"));
  CHECK(contains(refusal({"--tee=0:1,2"}), "RANK:N,RANK:N"));
  try {
    parse_options({"--max-restarts"});
    FAIL("accepted");
  } catch (const ValueError& error) {
    CHECK(contains(error.what(), "expects a value"));
  }
  CHECK_THROWS_AS(parse_options({"--standalone"}), ValueError);

  const LaunchResult bad = launch({"--nprocs=2", "true"});
  CHECK(bad.code == 2);
  CHECK(contains(bad.err, "[ferrite-run] there is no option --nprocs"));
  const LaunchResult missing = launch({"--max-restarts=3", "no-such-program"});
  CHECK(missing.code == 127);
  CHECK(contains(missing.err, "there is no program no-such-program on the PATH"));
  CHECK(launch({"/no/such/program"}).code == 127);
  const LaunchResult refused = launch({source_dir() + "/README.md"});
  CHECK(refused.code == 126);
  CHECK(contains(refused.err, "is not an executable file"));
  const TempDir folder;
  const std::string script = folder.path() / "script";
  std::ofstream(script) << "true\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const LaunchResult bare = launch({"--max-restarts=3", script});
  CHECK(bare.code == 126);
  CHECK(contains(bare.err, "a script begins with #!"));
  const LaunchResult help = launch({"--help"});
  CHECK(help.code == 0);
  CHECK(help.err.empty());
  CHECK(contains(help.out, "\nExamples:\n"));
  CHECK(launch({"--version"}).out == std::string("ferrite-run ") + version() + "\n");
}

TEST_CASE("restarts are counted, wait longer each time, and are given back") {
  launcher::RestartPolicy policy(
      {.max_restarts = 4, .restart_backoff = 1, .restart_backoff_max = 4, .restart_reset = 100}, 7);
  for (const double longest : {1.0, 2.0, 4.0}) {
    const double wait = policy.after(std::chrono::seconds(1)).value().count();
    CHECK(wait <= longest);
    CHECK(wait >= longest / 2);
  }
  CHECK(policy.used() == 3);
  CHECK(policy.after(std::chrono::seconds(100)).value().count() <= 1);
  CHECK(policy.used() == 1);
  for (int i = 0; i < 3; ++i) CHECK(policy.after(std::chrono::seconds(1)));
  CHECK_FALSE(policy.after(std::chrono::seconds(1)));
  CHECK_FALSE(policy.left(std::chrono::seconds(99)));
  CHECK(policy.left(std::chrono::seconds(100)));
  policy.follow(6, 7);  // of another agent
  CHECK(policy.left(std::chrono::seconds(1)));
  CHECK(policy.after(std::chrono::seconds(1)));
  CHECK(policy.used() == 7);
  CHECK_FALSE(policy.left(std::chrono::seconds(1)));
  CHECK_FALSE(launcher::RestartPolicy({}, 1).after(std::chrono::hours(10)));
}

TEST_CASE("the environment tells workers their rank") {
  const LaunchResult run = launch(
      with_script({"--nproc-per-node=3", "--max-restarts=2", "--rdzv-id=job7"},
                  "echo $RANK,$LOCAL_RANK,$WORLD_SIZE,$LOCAL_WORLD_SIZE,$GROUP_RANK,$NODE_RANK,"
                  "$OMP_NUM_THREADS,$FERRITE_RESTART_COUNT,$TORCHELASTIC_RESTART_COUNT,"
                  "$FERRITE_MAX_RESTARTS,$FERRITE_RUN_ID,$MASTER_ADDR,${#FERRITE_TOKEN}; "
                  "echo $MASTER_PORT $FERRITE_TOKEN"));
  CHECK(run.code == 0);
  CHECK(run.err.empty());
  for (int rank = 0; rank < 3; ++rank) {
    const std::string r = std::to_string(rank);
    CHECK(contains(run.out,
                   "[rank " + r + "] " + r + "," + r + ",3,3,0,0,1,0,0,2,job7,127.0.0.1,32\n"));
  }
  std::set<std::string> places;
  for (const std::string& line : lines_of(run.out))
    if (!contains(line, ",")) places.insert(line.substr(9));
  CHECK(places.size() == 1);  // one port and one token for all
  const std::string alone = "echo \"<$OMP_NUM_THREADS>\"";
  CHECK(contains(launch(with_script({}, alone)).out, "<>"));
  CHECK(contains(launch(with_script({"--nproc-per-node=2"}, alone), {{"OMP_NUM_THREADS", "5"}}).out,
                 "<5>"));
}

TEST_CASE("output comes line by line under its rank, however it was written") {
  const int ranks = 4, lines = 300;
  const LaunchResult run = launch(with_script(
      {"--nproc-per-node=4"},
      "i=0; while [ $i -lt 300 ]; do printf 'one half of %s,' $i; printf ' of %s\\n' $RANK; "
      "printf 'to stderr %s\\n' $i >&2; i=$((i+1)); done; printf 'no end of %s' $RANK"));
  CHECK(run.code == 0);
  std::array<int, 4> next{};
  for (const std::string& line : lines_of(run.out)) {
    const int rank = line.at(6) - '0';
    REQUIRE(rank >= 0);
    REQUIRE(rank < ranks);
    const std::string prefix = "[rank " + std::to_string(rank) + "] ";
    const int i = next[static_cast<std::size_t>(rank)]++;
    CHECK(line ==
          prefix + (i < lines ? "one half of " + std::to_string(i) + ", of " + std::to_string(rank)
                              : "no end of " + std::to_string(rank)));
  }
  for (const int n : next) CHECK(n == lines + 1);
  CHECK(lines_of(run.err).size() == ranks * lines);
}

TEST_CASE("workers do not wait for the reader of the console") {
  std::array<int, 2> pipe{};
  REQUIRE(pipe2(pipe.data(), O_CLOEXEC) == 0);
  Launched run(with_script({"--nproc-per-node=2"},
                           "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; "
                           "echo written >&2"),
               {}, pipe[1]);
  close(pipe[1]);
  CHECK(run.wait_for_output("] written", 2));
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (ssize_t n = 0; (n = read(pipe[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  close(pipe[0]);
  CHECK(run.wait() == 0);
  CHECK(occurrences(text, "x") == 6'000'000);
  CHECK(run.nothing_left());
}

TEST_CASE("a console that is closed does not end the job") {
  std::array<int, 2> pipe{};
  REQUIRE(pipe2(pipe.data(), O_CLOEXEC) == 0);
  Launched run(with_script({}, "echo a; echo b; echo done >&2"), {}, pipe[1]);
  close(pipe[0]);
  close(pipe[1]);
  CHECK(run.wait() == 0);
  CHECK(contains(run.err(), "[rank 0] done"));
}

TEST_CASE("a console whose disk is full does not end the job, which says so") {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  Launched run(with_script({}, "echo a; echo done >&2"), {}, full);
  close(full);
  CHECK(run.wait() == 0);
  CHECK(contains(run.err(), "[rank 0] done"));
  CHECK(contains(run.err(), "the end of the standard output was lost: No space left on device"));
}

TEST_CASE("a log that may not grow any further is given up, and the job goes on") {
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const rlimit small{10'000, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  Launched run(
      with_script({"--log-dir=logs", "--redirects=3"},
                  "for i in $(seq 1000); do echo a line of 40 characters, more or less: $i; "
                  "done; echo done >&2"));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(run.wait() == 0);
  CHECK(contains(run.err(), "[ferrite-run] logs/restart_0/rank_0.out is given up: File too large"));
  CHECK(read_file(run.folder() / "logs/restart_0/rank_0.out").size() == 10'000);
  CHECK(read_file(run.folder() / "logs/restart_0/rank_0.err") == "done\n");
}

TEST_CASE("output goes to files, as well or instead") {
  const std::string script = "echo out of $RANK; echo err of $RANK >&2";
  {
    Launched run(with_script({"--nproc-per-node=2", "--log-dir=logs"}, script));
    CHECK(run.wait() == 0);
    CHECK(contains(run.out(), "[rank 1] out of 1\n"));
    CHECK(read_file(run.folder() / "logs/restart_0/rank_0.out") == "out of 0\n");
    CHECK(read_file(run.folder() / "logs/restart_0/rank_1.err") == "err of 1\n");
  }
  {
    Launched run(
        with_script({"--nproc-per-node=2", "--log-dir=logs", "-r", "3", "--no-prefix"}, script));
    CHECK(run.wait() == 0);
    CHECK(run.out().empty());
    CHECK_FALSE(contains(run.err(), "err of"));
    CHECK(read_file(run.folder() / "logs/restart_0/rank_1.out") == "out of 1\n");
  }
  {
    Launched run(with_script({"--nproc-per-node=2", "--log-dir=logs", "--tee=0:1",
                              "--redirects=1:1", "--local-ranks-filter=0", "--no-prefix"},
                             script));
    CHECK(run.wait() == 0);
    CHECK(run.out() == "out of 0\n");
    CHECK(contains(run.err(), "err of 0\n"));
    CHECK_FALSE(contains(run.err(), "err of 1\n"));
    const auto logs = run.folder() / "logs/restart_0";
    CHECK(read_file(logs / "rank_0.out") == "out of 0\n");
    CHECK(read_file(logs / "rank_1.out") == "out of 1\n");
    CHECK_FALSE(std::filesystem::exists(logs / "rank_0.err"));
    CHECK_FALSE(std::filesystem::exists(logs / "rank_1.err"));
  }
  const LaunchResult refused = launch(with_script({"--log-dir=/proc/none"}, script));
  CHECK(refused.code == 1);
  CHECK(contains(refused.err, "/proc/none"));
}

TEST_CASE("the first rank that fails is named, and the launcher ends as it did") {
  const LaunchResult run = launch(with_script({"--nproc-per-node=3"},
                                              "if [ $RANK = 1 ]; then i=0; while [ $i -lt 30 ]; do "
                                              "echo line $i of it >&2; i=$((i+1)); done; "
                                              "exit 7; fi; exec sleep 1000"));
  CHECK(run.code == 7);
  CHECK(contains(run.err, "[ferrite-run] rank 1 ("));
  CHECK(contains(run.err, "exited with status 7 at 20"));
  CHECK(contains(run.err, "[ferrite-run]   line 29 of it\n"));
  CHECK(contains(run.err, "[ferrite-run]   line 10 of it\n"));
  CHECK_FALSE(contains(run.err, "[ferrite-run]   line 9 of it\n"));
  CHECK(contains(run.err, "[ferrite-run]   rank 0 was ended by SIGTERM, at the agent's request\n"));
  CHECK(contains(run.err, "[ferrite-run]   rank 2 was ended by SIGTERM, at the agent's request\n"));

  const LaunchResult killed = launch(with_script(
      {"--nproc-per-node=2"}, "if [ $RANK = 0 ]; then kill -SEGV $$; fi; exec sleep 1000"));
  CHECK(killed.code == 128 + SIGSEGV);
  CHECK(contains(killed.err, "rank 0 ("));
  CHECK(contains(killed.err, "was ended by SIGSEGV"));
}

TEST_CASE("workers that fail are started again") {
  const std::string script =
      "echo start $FERRITE_RESTART_COUNT of $RANK; "
      "if [ $RANK = 1 ] && [ $FERRITE_RESTART_COUNT -lt 2 ]; then exit 5; fi; "
      "if [ $FERRITE_RESTART_COUNT -lt 2 ]; then exec sleep 1000; fi";
  const LaunchResult run = launch(with_script({"--nproc-per-node=2", "--max-restarts=2"}, script));
  CHECK(run.code == 0);
  for (const char* start : {"[rank 1] start 0 of 1", "[rank 1] start 1 of 1",
                            "[rank 0] start 2 of 0", "[rank 1] start 2 of 1"})
    CHECK(contains(run.out, start));
  CHECK(contains(run.err, "restart 1 of 2 in 0.0 s"));
  CHECK(contains(run.err, "restart 2 of 2 in 0.0 s"));

  Launched given_up(
      with_script({"--nproc-per-node=2", "--max-restarts=1", "--log-dir=logs"}, script));
  CHECK(given_up.wait() == 5);
  CHECK(read_file(given_up.folder() / "logs/restart_1/rank_1.out") == "start 1 of 1\n");
  CHECK(occurrences(given_up.err(), "exited with status 5") == 2);
  CHECK(given_up.descendants().empty());
}

TEST_CASE("signals are passed on, to grandchildren too") {
  // The worker's own child receives it as well.
  const std::string script =
      "trap 'echo usr1 $RANK' USR1; trap 'echo usr2 $RANK' USR2; trap 'echo ends $RANK; exit 3' "
      "INT TERM HUP; "
      "sh -c \"trap 'echo child got it; exit' INT TERM HUP; while :; do sleep 0.05; done\" & "
      "echo ready; while :; do sleep 0.05; done";
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    Launched run(with_script({"--nproc-per-node=2", "--max-restarts=5"}, script));
    CHECK(run.wait_for_output("] ready", 2));
    run.signal(SIGUSR1);
    CHECK(run.wait_for_output("] usr1 0"));
    CHECK(run.wait_for_output("] usr1 1"));
    run.signal(SIGUSR2);
    CHECK(run.wait_for_output("] usr2 1"));
    run.signal(number);
    CHECK(run.wait() == 3);
    CHECK(occurrences(run.out(), "] ends") == 2);
    CHECK_FALSE(contains(run.err(), "restart 1"));
    CHECK(run.descendants().empty());
  }
}

TEST_CASE("workers that do not heed signals are killed") {
  const std::string deaf = "trap '' INT TERM HUP; echo ready; while :; do sleep 0.05; done";
  {
    Launched run(with_script({"--nproc-per-node=2"}, deaf));
    CHECK(run.wait_for_output("] ready", 2));
    run.signal(SIGINT);
    CHECK(run.wait_for_output("once more kills them"));
    // Two signals at once count as one.
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    run.signal(SIGINT);
    CHECK(run.wait() == 128 + SIGKILL);
    CHECK(run.descendants().empty());
  }
  {
    Launched run(with_script({"--nproc-per-node=2", "--grace-period=0.3"}, deaf));
    CHECK(run.wait_for_output("] ready", 2));
    run.signal(SIGTERM);
    CHECK(run.wait() == 128 + SIGKILL);
    CHECK(run.descendants().empty());
  }
  // And workers that do not exit after a failure.
  const LaunchResult run = launch(with_script({"--nproc-per-node=2", "--grace-period=0.3"},
                                              "if [ $RANK = 0 ]; then " + deaf + "; fi; exit 4"));
  CHECK(run.code == 4);
  CHECK(contains(run.err, "rank 0 was ended by SIGKILL, at the agent's request"));
}

TEST_CASE("processes started by workers end with them") {
  // In the worker's group, in a separate session, and stopped.
  const std::string start = "sleep 1000 & setsid sleep 1000 & sh -c 'kill -STOP $$' & echo ready; ";
  CHECK(launch(with_script({"--nproc-per-node=2"}, start + "exit 0")).code == 0);
  CHECK(launch(with_script({"--nproc-per-node=2"}, start + "exit 6")).code == 6);
  CHECK(launch(with_script({"--nproc-per-node=2", "--max-restarts=1"}, start + "exit 6")).code ==
        6);
}

TEST_CASE("workers die with the launcher") {
  Launched run(with_script({"--nproc-per-node=3"}, "sleep 1000 & echo ready; wait"));
  CHECK(run.wait_for_output("] ready", 3));
  // Including the guard; a process that was just started may not be recognizable yet.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (run.descendants().size() != 7 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(run.descendants().size() == 7);
  run.signal(SIGKILL);
  CHECK(run.wait() == 128 + SIGKILL);
  CHECK(run.nothing_left());
}

TEST_CASE("ranks killed at random: the job ends well while there are restarts, and as they did") {
  // Each worker appends its progress to a file of its rank, and continues from there.
  const std::string script =
      "f=state.$RANK; n=$(cat $f 2>/dev/null || echo 0); echo pid $$; "
      "while [ $n -lt 30 ]; do n=$((n+1)); echo $n > $f.new; mv $f.new $f; sleep 0.01; done; "
      "echo reached $n";
  std::uint64_t seed = 20261122;
  const auto random = [&](std::uint64_t below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % below;
  };
  for (int round = 0; round < 3; ++round) {
    Launched run(with_script({"--nproc-per-node=3", "--max-restarts=4"}, script));
    for (int kills = 0; kills < 4; ++kills) {
      if (!run.wait_for_output("] pid ", 3 * (kills + 1))) break;  // done
      usleep(static_cast<useconds_t>(random(100'000)));
      const std::string rank = "[rank " + std::to_string(random(3)) + "] pid ";
      const std::string out = run.out();
      const std::size_t at = out.rfind(rank);
      REQUIRE(at != std::string::npos);
      kill(std::atoi(out.c_str() + at + rank.size()), SIGKILL);
    }
    INFO(run.err());
    CHECK(run.wait() == 0);
    CHECK(occurrences(run.out(), "reached 30") >= 3);
    CHECK(run.descendants().empty());
  }
}
