// How ranks find each other: what launchers say, and ranks that come, do not come, or come twice.
#include "parallel/comm/rendezvous.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "parallel/comm/job_environment.h"
#include "parallel/comm/rendezvous_file.h"
#include "parallel/comm/socket.h"
#include "parallel/comm/tcp_store.h"
#include "parallel/comm/tcp_store_server.h"

namespace ferrite::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  INFO(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

/// Every variable that rendezvous looks at is what is said here, or not set, as long as it lives.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& set) {
    for (const char* name : {"RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID",
                             "MPI_LOCALNRANKS",
                             "PMIX_NAMESPACE",
                             "OMPI_MCA_orte_ess_jobid",
                             "OMPI_MCA_ess_base_jobid",
                             "SLURM_PROCID",
                             "SLURM_LOCALID",
                             "SLURM_NTASKS",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_NUM_NODES",
                             "SLURM_NNODES",
                             "SLURM_JOB_NUM_NODES",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_NODELIST",
                             "SLURM_NODELIST",
                             "SLURM_JOB_ID",
                             "SLURM_JOBID",
                             "SLURM_STEP_ID",
                             "SLURM_STEPID",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "FERRITE_RESTART_COUNT",
                             "FERRITE_STORE",
                             "FERRITE_TOKEN",
                             "FERRITE_BIND_ADDR"}) {
      const char* value = std::getenv(name);
      before_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
    for (const auto& [name, value] : set) {
      REQUIRE(before_.count(name));
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string value_error_of(const auto& f) {
  try {
    f();
  } catch (const ValueError& error) {
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

/// As processes end: all at once, the server waiting for the others.
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

std::uint16_t free_port() { return local_address(listen_at({"localhost", 0})).port; }

/// A folder of this test's own, for rendezvous files.
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

TEST_CASE("ranks meet by file, and the file goes with them") {
  Folder folder;
  for (int world_size : {1, 2, 5}) {
    Environment none({});
    auto outcomes = meet(ranks(world_size, "file://" + folder.file()));
    check_together(outcomes);
    const auto mode = std::filesystem::status(folder.file()).permissions();
    CHECK((mode & std::filesystem::perms::mask) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    leave(outcomes);
    CHECK_FALSE(std::filesystem::exists(folder.file()));
  }
}

TEST_CASE("ranks meet by tcp and by env, again and again") {
  Environment env({{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(free_port())}});
  const std::string tcp = "tcp://localhost:" + std::to_string(free_port());
  for (const std::string& method : {std::string("env://"), tcp, std::string("env://"), tcp}) {
    auto outcomes = meet(ranks(3, method));
    check_together(outcomes);
    leave(outcomes);
  }
}

TEST_CASE("the ranks that do not come are named, by all that have") {
  Environment none({});
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
  CHECK(contains(meet(options)[0].error, "nobody answers at localhost:"));
}

TEST_CASE("two ranks of one number, and worlds of two sizes, are errors on all ranks") {
  Environment none({});
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

}  // namespace
}  // namespace ferrite::parallel
