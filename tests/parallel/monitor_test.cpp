// Heartbeats: which ranks are found to be lost, stopped or late, the messages, and their receivers.
#include "ferrite/parallel/comm/bootstrap/monitor.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/tcp_monitor.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/tests/parallel/launcher_environment.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using test::contains;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using bootstrap::protocol::Command;
using bootstrap::protocol::Writer;

const std::string kSum = "all_reduce(sum) of float32[1024]";

// ---- Monitors in threads

class MonitorJob {
 public:
  explicit MonitorJob(int ranks, std::chrono::milliseconds timeout = 20s) {
    server = std::make_unique<bootstrap::TcpStoreServer>(bootstrap::TcpStoreServerOptions{});
    for (int rank = 0; rank < ranks; ++rank) {
      monitors.push_back(std::make_unique<bootstrap::TcpMonitor>(
          server->address(), "",
          bootstrap::TcpMonitorOptions{"run", rank, ranks, timeout, "rank 0"}));
    }
  }
  bootstrap::TcpMonitor& operator[](int rank) { return *monitors[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<bootstrap::TcpStoreServer> server;
  std::vector<std::unique_ptr<bootstrap::TcpMonitor>> monitors;
};

/// Records the message of a watcher.
class Heard {
 public:
  std::function<void(const std::string&)> watcher() {
    return [this](const std::string& reason) {
      const std::lock_guard lock(mutex_);
      ++times_;
      reason_ = reason;
      changed_.notify_all();
    };
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, 20s, [this] { return times_ > 0; }));
    return reason_;
  }
  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;
  int times_ = 0;
};

/// A rank that has joined, and does nothing more, like a stopped process.
links::Fd mute_rank(const bootstrap::TcpStoreServer& server, int rank, int ranks) {
  bootstrap::Connection connection = bootstrap::greet(server.address(), "", Clock::now() + 10s);
  REQUIRE(connection.fd.valid());
  REQUIRE(links::send_all(
      connection.fd,
      connection.channel->seal(bootstrap::protocol::Writer(bootstrap::protocol::Command::join)
                                   .text("run")
                                   .number(static_cast<std::uint32_t>(rank))
                                   .number(static_cast<std::uint32_t>(ranks))
                                   .number(20000u)
                                   .number(20u)
                                   .text("nowhere, process 1")
                                   .take()),
      Clock::now() + 10s));
  char reply[links::kFrameHeader + 5 + links::kFrameTag];
  REQUIRE(links::recv_all(connection.fd, reply, sizeof reply, Clock::now() + 10s));
  return std::move(connection.fd);
}

TEST_CASE("monitors name late ranks, and ranks that have left") {
  MonitorJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    job[rank].watch("default", [](const std::string& reason) { FAIL(reason); });
    job[rank].begin("default", 1, kSum);
    job[rank].end("default", 1);
  }
  job[0].begin("default", 2, "barrier");
  job[2].begin("default", 2, "barrier");
  const auto begin = Clock::now();
  CHECK(contains(job[0].blame("default", 2),
                 "rank 1 has not begun it: its last operation is " + kSum + " number 1, ended"));
  CHECK(job[0].blame("default", 1).empty());
  job[1].leave();
  CHECK(contains(job[2].blame("default", 2), "rank 1 has left the job"));
  CHECK(Clock::now() - begin < 10s);
  for (int rank = 0; rank < 3; ++rank) job[rank].unwatch("default");
}

TEST_CASE("a failure is reported to the watchers of its group, once") {
  MonitorJob job(3);
  Heard one, two, own, other;
  job[0].watch("default", own.watcher());
  job[1].watch("default", one.watcher());
  job[2].watch("default", two.watcher());
  job[2].watch("other", other.watcher());
  job[0].report_failure("default", "because");
  job[0].report_failure("default", "again");
  CHECK(one.wait() == "because");
  CHECK(two.wait() == "because");
  job[1].report_failure("other", "too");
  CHECK(other.wait() == "too");
  CHECK(own.times() == 0);
  CHECK(two.times() == 1);
}

TEST_CASE("a broken connection is reported to all groups, and every blame names the rank") {
  MonitorJob job(0);
  for (int rank = 0; rank < 2; ++rank) {
    job.monitors.push_back(std::make_unique<bootstrap::TcpMonitor>(
        job.server->address(), "", bootstrap::TcpMonitorOptions{"run", rank, 3, 20s, "rank 0"}));
  }
  links::Fd mute = mute_rank(*job.server, 2, 3);
  Heard a, b, late;
  job[0].watch("default", a.watcher());
  job[0].watch("other", b.watcher());
  // A watcher may call the monitor, and may take long.
  job[1].watch("default", [&](const std::string&) { job[1].blame("default", 1); });
  mute.reset();
  CHECK(contains(a.wait(), "rank 2 was lost: its process (nowhere, process 1)"));
  CHECK(contains(b.wait(), "rank 2 was lost"));
  job[0].watch("new", late.watcher());
  CHECK(contains(late.wait(), "rank 2 was lost"));
  CHECK(contains(job[0].blame("default", 1), "rank 2 was lost"));
  CHECK(a.times() == 1);
}

TEST_CASE(
    "a rank that is silent is taken for lost after the timeout, and those that beat are not") {
  MonitorJob job(0);
  job.monitors.push_back(std::make_unique<bootstrap::TcpMonitor>(
      job.server->address(), "", bootstrap::TcpMonitorOptions{"run", 0, 3, 2s, "rank 0"}));
  const links::Fd mute = mute_rank(*job.server, 1, 3);
  job.monitors.push_back(std::make_unique<bootstrap::TcpMonitor>(
      job.server->address(), "", bootstrap::TcpMonitorOptions{"run", 2, 3, 2s, "rank 0"}));
  Heard heard;
  job[0].watch("default", heard.watcher());
  CHECK(contains(heard.wait(), "rank 1 (nowhere, process 1) stopped answering"));
  CHECK(contains(job[1].blame("default", 1), "rank 1"));
}

TEST_CASE("a server that ends properly loses no rank, and is named by blame") {
  MonitorJob job(2);
  Heard heard;
  job[0].watch("default", heard.watcher());
  job.server.reset();
  const auto deadline = Clock::now() + 20s;
  std::string words;
  while ((words = job[1].blame("default", 1)).empty() && Clock::now() < deadline) {
  }
  CHECK(contains(words, "rank 0, which served the store at localhost:"));
  CHECK(contains(words, "has left the job"));
  CHECK(heard.times() == 0);
}

TEST_CASE("unwatch waits for a watcher that runs") {
  MonitorJob job(2);
  Heard begun;
  std::atomic<bool> let_go = false, ended = false;
  job[0].watch("default", [&](const std::string& reason) {
    begun.watcher()(reason);
    while (!let_go) std::this_thread::yield();
    ended = true;
  });
  job[1].report_failure("default", "x");
  begun.wait();
  std::thread releaser([&] { let_go = true; });
  job[0].unwatch("default");
  CHECK(ended);
  releaser.join();
}

// ---- Ranks as processes

/// Joins, reports it, and waits until another rank is lost; reports the loss and the result of
/// blame().
RANK_FUNCTION(monitor_waits_for_a_loss) {
  const std::chrono::milliseconds timeout{std::stoi(test::environment_or("TIMEOUT", "20000"))};
  const auto met = rendezvous(test::rank_init_options(timeout));
  Heard heard;
  met->monitor()->watch("default", heard.watcher());
  met->monitor()->begin("default", 1, kSum);
  if (test::rank_of_process() != 1) {
    met->monitor()->end("default", 1);
    met->monitor()->begin("default", 2, "barrier");
  }
  test::say("ready");
  test::say("heard: " + heard.wait());
  test::say("blame: " + met->monitor()->blame("default", 2));
  met->monitor()->unwatch("default");
  met->leave(0ms);
}

struct Loss {
  const char* what;
  int rank, signal;
  const char* expected;
};

TEST_CASE("processes that are killed, stopped or cut off are named to all others") {
  for (const Loss& loss :
       {Loss{"killed", 1, SIGKILL, "rank 1 was lost: its process"},
        Loss{"stopped", 1, SIGSTOP, "rank 1"}, Loss{"cut off", 2, 0, "rank 2"},
        Loss{"server killed", 0, SIGKILL, "rank 0, which serves the store at"},
        Loss{"server stopped", 0, SIGSTOP, "rank 0, which serves the store at"}}) {
    CAPTURE(loss.what);
    test::ProcessOptions options;
    // It also limits how long the processes may take to join.
    options.environment["TIMEOUT"] = loss.signal == SIGKILL ? "30000"
                                     : test::sanitized()    ? "15000"
                                                            : "5000";
    test::RankProcesses job("monitor_waits_for_a_loss", 3, options);
    for (int rank = 0; rank < 3; ++rank) REQUIRE(job.wait_for_output(rank, "ready"));
    if (loss.signal) {
      job.signal(loss.rank, loss.signal);
    } else {
      job.cut_off(loss.rank);
    }
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == loss.rank) continue;
      CAPTURE(rank);
      CHECK(job.wait_for_output(rank, "blame: "));
      const std::string output = job.output(rank);
      CHECK(contains(output, std::string("heard: ") + loss.expected));
      CHECK(contains(output, std::string("blame: ") + loss.expected));
      if (loss.signal != SIGKILL) CHECK(contains(output, "stopped answering"));
    }
    CHECK(job.wait_all_but({loss.rank}));
    CHECK(job.finish() == "");
  }
}

TEST_CASE("a server that announces a message of gigabytes is lost") {
  namespace protocol = bootstrap::protocol;
  const links::Fd listener = links::listen_at({"127.0.0.1", 0});
  std::thread server([&] {
    const links::Deadline deadline = Clock::now() + 20s;
    const std::string nonce(protocol::kNonce, 'n');
    std::string hello(protocol::kHello, '\0'), proof(protocol::kProof, '\0');
    links::wait_ready(listener.get(), POLLIN, deadline);
    const links::Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
    CHECK(links::recv_all(fd, hello.data(), hello.size(), deadline));
    CHECK(links::send_all(fd, protocol::hello(nonce), deadline));
    CHECK(links::recv_all(fd, proof.data(), proof.size(), deadline));
    const std::string theirs = hello.substr(hello.size() - protocol::kNonce);
    const auto accepted = static_cast<char>(protocol::GreetingReply::accepted);
    CHECK(links::send_all(fd, accepted + protocol::proof("", "server", theirs, nonce), deadline));
    links::SealedChannel channel(protocol::frame_key("", "server", theirs, nonce),
                                 protocol::frame_key("", "client", theirs, nonce));
    const std::string joined = Writer(protocol::Answer::joined).take();
    CHECK(links::send_all(fd, channel.seal(joined + "\xff\xff\xff\xff"), deadline));
    std::string rest(1 << 20, '\0');
    CHECK_FALSE(links::recv_all(fd, rest.data(), rest.size(), deadline));
    CHECK(Clock::now() < deadline);  // the monitor has hung up
  });
  Heard heard;
  {
    bootstrap::TcpMonitor monitor(links::local_address(listener), "", {"run", 0, 2, 60s, "rank 1"});
    monitor.watch("group", heard.watcher());
    CHECK(contains(heard.wait(), "rank 1, which serves the store"));
    server.join();
  }
  CHECK(heard.times() == 1);
}

}  // namespace
