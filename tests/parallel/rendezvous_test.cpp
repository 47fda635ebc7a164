// Rendezvous: launchers' settings, and ranks that arrive, do not arrive, or arrive twice.
#include "ferrite/parallel/comm/bootstrap/rendezvous.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/job_environment.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store.h"
#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/tests/parallel/launcher_environment.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using test::contains;
using test::LauncherEnvironment;

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Outcome {
  std::unique_ptr<Rendezvous> met;
  std::string error;
};

/// Ranks as threads, each with its own options.
std::vector<Outcome> meet(const std::vector<InitOptions>& options) {
  std::vector<Outcome> out(options.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < options.size(); ++i) {
    threads.emplace_back(
        [&, i] { out[i].error = error_of([&] { out[i].met = rendezvous(options[i]); }); });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

std::vector<InitOptions> ranks(int size, const std::string& method, Milliseconds timeout = 20s) {
  std::vector<InitOptions> out;
  for (int rank = 0; rank < size; ++rank) {
    out.push_back({.init_method = method, .rank = rank, .world_size = size, .timeout = timeout});
  }
  return out;
}

/// As processes end: all at once, with the server waiting for the others.
void leave(std::vector<Outcome>& outcomes) {
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes) threads.emplace_back([&] { outcome.met.reset(); });
  for (std::thread& thread : threads) thread.join();
}

void check_together(std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    INFO(outcomes[rank].error);
    REQUIRE(outcomes[rank].met);
    CHECK(outcomes[rank].met->place().rank == static_cast<int>(rank));
    CHECK(outcomes[rank].met->store()->add("sum", 1) == static_cast<int>(rank) + 1);
  }
}

std::uint16_t free_port() { return links::local_address(links::listen_at({"localhost", 0})).port; }

/// A temporary folder for rendezvous files.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rendezvous_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file() const { return path_ + "/meet"; }

 private:
  std::string path_;
};

TEST_CASE("ranks meet by file, and the file is removed") {
  Folder folder;
  for (int world_size : {1, 2, 5}) {
    LauncherEnvironment none({});
    auto outcomes = meet(ranks(world_size, "file://" + folder.file()));
    check_together(outcomes);
    const auto mode = std::filesystem::status(folder.file()).permissions();
    CHECK((mode & std::filesystem::perms::mask) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    leave(outcomes);
    CHECK_FALSE(std::filesystem::exists(folder.file()));
  }
}

TEST_CASE("ranks meet by tcp and by env, repeatedly") {
  LauncherEnvironment env(
      {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(free_port())}});
  const std::string tcp = "tcp://localhost:" + std::to_string(free_port());
  for (const std::string& method : {std::string("env://"), tcp, std::string("env://"), tcp}) {
    auto outcomes = meet(ranks(3, method));
    check_together(outcomes);
    leave(outcomes);
  }
}

TEST_CASE("ranks meet with the longest time-outs") {
  LauncherEnvironment none({});
  for (const Milliseconds timeout : {Milliseconds::max(), Milliseconds(24h * 365 * 300)}) {
    auto outcomes = meet(ranks(2, "tcp://localhost:" + std::to_string(free_port()), timeout));
    check_together(outcomes);
    leave(outcomes);
  }
}

TEST_CASE("missing ranks are named by all that have arrived") {
  LauncherEnvironment none({});
  Folder folder;
  auto options = ranks(5, "file://" + folder.file(), 1500ms);
  options.erase(options.begin() + 3);
  options.erase(options.begin() + 1);
  for (const Outcome& outcome : meet(options)) {
    CHECK_FALSE(outcome.met);
    CHECK(contains(outcome.error, "3 of 5 ranks"));
    CHECK(contains(outcome.error, "ranks 1, 3 have not"));
  }
  CHECK_FALSE(std::filesystem::exists(folder.file()));
  // Without rank 0 there is not even a store.
  options = ranks(2, "file://" + folder.file(), 300ms);
  options.erase(options.begin());
  CHECK(contains(meet(options)[0].error, "rank 0 has not written " + folder.file()));
  options[0].init_method = "tcp://localhost:" + std::to_string(free_port());
  CHECK(contains(meet(options)[0].error, "nothing answers at localhost:"));
}

TEST_CASE("two ranks of one number, and worlds of two sizes, are errors on all ranks") {
  LauncherEnvironment none({});
  Folder folder;
  auto options = ranks(3, "file://" + folder.file());
  options[2].rank = 1;
  for (const Outcome& outcome : meet(options)) {
    CHECK(contains(outcome.error, "two processes say that they are rank 1: "));
    CHECK(contains(outcome.error, "process " + std::to_string(getpid())));
  }
  options = ranks(3, "file://" + folder.file());
  options[2].world_size = 4;
  for (const Outcome& outcome : meet(options)) {
    CHECK(contains(outcome.error, "rank 0 says 3, rank 2 says 4"));
  }
}

// ---- Obstacles

TEST_CASE("where torchrun's agent listens, ranks find each other at the ports after it") {
  // The agent, and at the next port a stranger that sends nothing.
  links::Fd agent, stranger;
  std::uint16_t port = 0;
  for (int i = 0; i < 100 && !stranger.valid(); ++i) {
    agent = links::listen_at({"localhost", 0});
    port = links::local_address(agent).port;
    if (port > 60000) continue;
    try {
      stranger = links::listen_at({"localhost", static_cast<std::uint16_t>(port + 1)});
    } catch (const std::system_error&) {
      // Taken by another program: try another pair.
    }
  }
  REQUIRE(stranger.valid());
  LauncherEnvironment env({{"MASTER_ADDR", "localhost"},
                           {"MASTER_PORT", std::to_string(port)},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  auto outcomes = meet(ranks(2, "env://"));
  check_together(outcomes);
  leave(outcomes);
}

TEST_CASE("a port that is taken is an error that names it") {
  const links::Fd taken = links::listen_at({"localhost", 0});
  LauncherEnvironment env({{"MASTER_ADDR", "localhost"},
                           {"MASTER_PORT", std::to_string(links::local_address(taken).port)}});
  const std::string error =
      error_of([] { rendezvous({.rank = 0, .world_size = 1, .timeout = 300ms}); });
  CHECK(contains(error, std::to_string(links::local_address(taken).port)));
  CHECK(contains(error, "is taken"));
}

TEST_CASE("files and servers of earlier jobs are not mistaken for this one's") {
  LauncherEnvironment none({});
  Folder folder;
  SUBCASE("a file of one that is dead") {
    const bootstrap::RendezvousFile stale(
        folder.file(), {{"localhost", free_port()}, "x", "start 0", links::host_name()});
    auto outcomes = meet(ranks(3, "file://" + folder.file()));
    check_together(outcomes);
    leave(outcomes);
  }
  SUBCASE("half a file, and nonsense") {
    for (const char* text :
         {"", "ferrite rendezvous 1\nlocalhost:1\n", "nonsense\n\n\n\n\n\nend\n"}) {
      std::ofstream(folder.file()) << text;
      CHECK_FALSE(bootstrap::read_rendezvous_note(folder.file()));
      auto outcomes = meet(ranks(2, "file://" + folder.file()));
      check_together(outcomes);
      leave(outcomes);
    }
  }
  SUBCASE("what another user could have put there") {
    const std::string& path = folder.file();
    const bootstrap::RendezvousNote note{
        {"localhost", free_port()}, "x", "start 0", links::host_name()};
    const auto refused = [&](const char* text) {
      std::string why;
      CHECK_FALSE(bootstrap::read_rendezvous_note(path, &why));
      CHECK(contains(why, text));
      std::filesystem::remove(path);
    };
    {
      const bootstrap::RendezvousFile sound(path, note);
      CHECK(bootstrap::read_rendezvous_note(path)->token == "x");
      std::filesystem::rename(path, path + ".sound");
    }
    std::filesystem::create_symlink(path + ".sound", path);
    refused("");
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // whose reader would wait for a writer
    refused("expected a regular file");
    std::filesystem::copy(path + ".sound", path);
    std::filesystem::permissions(path, std::filesystem::perms(0666));
    const auto options = ranks(2, "file://" + path, 300ms);
    CHECK(contains(error_of([&] { rendezvous(options[1]); }), "that no other can write"));
    refused("that no other can write");
    if (geteuid() == 0) {
      std::filesystem::copy(path + ".sound", path);
      REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
      refused("is of user 65534");
    }
    std::filesystem::copy(path + ".sound", path);
    std::filesystem::resize_file(path, std::uintmax_t{1} << 33);  // most of it is a hole
    CHECK(bootstrap::read_rendezvous_note(path)->token == "x");
    std::ofstream(path) << "";
    std::filesystem::resize_file(path, std::uintmax_t{1} << 33);
    refused("");
    std::filesystem::remove(path + ".sound");
  }
  SUBCASE("a job that is complete and has not ended") {
    auto earlier = meet(ranks(2, "file://" + folder.file()));
    check_together(earlier);
    auto options = ranks(2, "file://" + folder.file());
    Outcome late;
    // Its file has the address of the earlier job, until rank 0 arrives.
    std::thread rank_1([&] { late.error = error_of([&] { late.met = rendezvous(options[1]); }); });
    std::this_thread::sleep_for(50ms);
    Outcome first{rendezvous(options[0]), ""};
    rank_1.join();
    CHECK(late.error == "");
    leave(earlier);
    REQUIRE(late.met);
    CHECK(std::filesystem::exists(folder.file()));
    std::thread leaving([&] { late.met.reset(); });
    first.met.reset();
    leaving.join();
  }
  SUBCASE("another start of the job, at the same port") {
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
    setenv("FERRITE_RESTART_COUNT", "0", 1);
    auto earlier = meet(ranks(2, "env://"));
    check_together(earlier);
    setenv("FERRITE_RESTART_COUNT", "1", 1);
    std::vector<Outcome> outcomes;
    std::thread next([&] { outcomes = meet(ranks(2, "env://")); });
    std::this_thread::sleep_for(50ms);
    leave(earlier);
    next.join();
    check_together(outcomes);
    leave(outcomes);
  }
}

TEST_CASE("a launcher's store serves start after start, each with keys of its own") {
  bootstrap::TcpStoreServerOptions serving;
  serving.token = "secret";
  bootstrap::TcpStoreServer server(serving);
  LauncherEnvironment env(
      {{"FERRITE_STORE", server.address().text()}, {"FERRITE_TOKEN", "secret"}});
  for (int start = 0; start < 2; ++start) {
    setenv("FERRITE_RESTART_COUNT", std::to_string(start).c_str(), 1);
    for (int again = 0; again < 2; ++again) {
      auto outcomes = meet(ranks(2, "env://"));
      check_together(outcomes);  // starts at 1 again
      leave(outcomes);
    }
  }
  CHECK(server.wait_until_left(10s));
  setenv("FERRITE_TOKEN", "other", 1);
  CHECK(contains(error_of([] { rendezvous({.rank = 0, .world_size = 1, .timeout = 200ms}); }),
                 "belongs to another job"));
}

TEST_CASE("a rank that is lost while others are waited for is named at once") {
  LauncherEnvironment none({});
  Folder folder;
  auto options = ranks(3, "file://" + folder.file(), 30s);
  options.pop_back();
  // Rank 1 arrives like a process that dies: it joins the monitor, and its connection ends.
  std::string error;
  std::thread rank_0([&] { error = error_of([&] { rendezvous(options[0]); }); });
  std::optional<bootstrap::RendezvousNote> note;
  while (!(note = bootstrap::read_rendezvous_note(folder.file()))) std::this_thread::yield();
  bootstrap::Connection connection =
      bootstrap::greet(note->address, note->token, Clock::now() + 10s);
  REQUIRE(connection.fd.valid());
  const auto begin = Clock::now();
  bootstrap::TcpStore store(note->address, note->token, 10s);
  store.get("start/0.0/in/0", 10s);
  REQUIRE(links::send_all(
      connection.fd,
      connection.channel->seal(bootstrap::protocol::Writer(bootstrap::protocol::Command::join)
                                   .text("start/0.0")
                                   .number(1u)
                                   .number(3u)
                                   .number(30000u)
                                   .number(500u)
                                   .text("there, process 1")
                                   .take()),
      Clock::now() + 10s));
  char reply[links::kFrameHeader + 5 + links::kFrameTag];
  REQUIRE(links::recv_all(connection.fd, reply, sizeof reply, Clock::now() + 10s));
  connection.fd.reset();
  rank_0.join();
  CHECK(contains(error, "rank 1 was lost: its process (there, process 1)"));
  CHECK(Clock::now() - begin < 20s);
}

}  // namespace
