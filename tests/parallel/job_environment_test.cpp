// Job settings from launchers' environments, and missing ones.
#include "ferrite/parallel/comm/bootstrap/job_environment.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous.h"
#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/tests/parallel/launcher_environment.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

using test::contains;
using test::LauncherEnvironment;
using namespace std::chrono_literals;

std::string value_error_of(const auto& f) {
  try {
    f();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

std::uint16_t free_port() { return links::local_address(links::listen_at({"localhost", 0})).port; }

struct Launcher {
  const char* name;
  std::map<std::string, std::string> variables;
  bootstrap::Place place;
  const char* host;  ///< null: an error
  int port;          ///< 0: derived from the job's name
};

TEST_CASE("every launcher's variables are understood") {
  for (const Launcher& launcher : std::vector<Launcher>{
           {"torchrun",
            {{"RANK", "3"},
             {"WORLD_SIZE", "8"},
             {"LOCAL_RANK", "1"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"MASTER_ADDR", "node0"},
             {"MASTER_PORT", "29500"},
             {"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "1"}},
            {3, 8, 1, 2},
            "node0",
            29500},
           {"torchrun, whose agent listens at the port",
            {{"RANK", "0"},
             {"WORLD_SIZE", "1"},
             {"MASTER_ADDR", "h"},
             {"MASTER_PORT", "29500"},
             {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
            {0, 1, 0, 0},
            "h",
            29501},
           {"torchrun, whose agent does not",
            {{"RANK", "0"},
             {"WORLD_SIZE", "1"},
             {"MASTER_ADDR", "h"},
             {"MASTER_PORT", "29500"},
             {"TORCHELASTIC_USE_AGENT_STORE", "False"}},
            {0, 1, 0, 0},
            "h",
            29500},
           {"mpirun on one host",
            {{"OMPI_COMM_WORLD_RANK", "2"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
             {"PMIX_NAMESPACE", "prterun-7"}},
            {2, 4, 2, 4},
            "localhost",
            0},
           {"mpirun on two hosts",
            {{"OMPI_COMM_WORLD_RANK", "2"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
             {"PMIX_NAMESPACE", "prterun-7"}},
            {2, 4, 0, 2},
            nullptr,
            0},
           {"mpirun within SLURM",
            {{"OMPI_COMM_WORLD_RANK", "2"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
             {"SLURM_JOB_ID", "99"},
             {"SLURM_JOB_NODELIST", "gpu[3-4]"},
             {"SLURM_NNODES", "2"},
             {"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "2"}},
            {2, 4, 0, 2},
            "gpu3",
            0},
           {"MPICH",
            {{"PMI_RANK", "1"},
             {"PMI_SIZE", "2"},
             {"MPI_LOCALRANKID", "1"},
             {"MPI_LOCALNRANKS", "2"},
             {"MASTER_PORT", "4000"}},
            {1, 2, 1, 2},
            "localhost",
            4000},
           {"srun",
            {{"SLURM_PROCID", "5"},
             {"SLURM_NTASKS", "8"},
             {"SLURM_LOCALID", "1"},
             {"SLURM_STEP_NUM_TASKS", "6"},
             {"SLURM_NNODES", "3"},
             {"SLURM_JOB_ID", "1234"},
             {"SLURM_STEP_ID", "1"},
             {"SLURM_JOB_NODELIST", "other"},
             {"SLURM_STEP_NODELIST", "node[07-08,12]"}},
            {5, 6, 1, 0},
            "node07",
            0},
           {"srun on one node",
            {{"SLURM_PROCID", "1"},
             {"SLURM_NTASKS", "2"},
             {"SLURM_NNODES", "1"},
             {"SLURM_JOB_ID", "1234"},
             {"SLURM_JOB_NODELIST", "node07"}},
            {1, 2, 0, 0},
            "localhost",
            0},
           {"ferrite-run",
            {{"RANK", "1"},
             {"WORLD_SIZE", "2"},
             {"FERRITE_STORE", "10.0.0.1:41000"},
             {"MASTER_ADDR", "x"},
             {"MASTER_PORT", "1"}},
            {1, 2, 0, 0},
            "10.0.0.1",
            41000},
       }) {
    CAPTURE(launcher.name);
    LauncherEnvironment env(launcher.variables);
    const bootstrap::Place place = bootstrap::place_in_job();
    CHECK(place.rank == launcher.place.rank);
    CHECK(place.world_size == launcher.place.world_size);
    CHECK(place.local_rank == launcher.place.local_rank);
    CHECK(bootstrap::local_rank() == launcher.place.local_rank);
    CHECK(place.local_world_size == launcher.place.local_world_size);
    if (!launcher.host) {
      CHECK(contains(value_error_of([&] { bootstrap::store_place(place); }),
                     "MASTER_ADDR is not set"));
      continue;
    }
    const bootstrap::StorePlace at = bootstrap::store_place(place);
    CHECK(at.host == launcher.host);
    CHECK(at.served_by_launcher == (launcher.variables.count("FERRITE_STORE") > 0));
    if (launcher.port) {
      CHECK(at.ports[0] == launcher.port);
    } else {
      CHECK(at.ports.size() > 4);
      CHECK(at.ports[0] >= 20000);
      CHECK(at.ports.back() < 32768);
      CHECK(at.ports == bootstrap::store_place(place).ports);
    }
  }
}

TEST_CASE("missing and invalid settings are reported with the launcher that sets them") {
  using Variables = std::map<std::string, std::string>;
  const auto error_in = [](const Variables& variables) {
    LauncherEnvironment env(variables);
    return value_error_of([] { rendezvous({.timeout = 1s}); });
  };
  CHECK(contains(error_in({}), "RANK is not set: start the program by ferrite-run, torchrun"));
  CHECK(contains(error_in({{"RANK", "0"}}), "WORLD_SIZE is not set"));
  CHECK(contains(error_in({{"RANK", ""}}), "RANK is not set"));
  CHECK(contains(error_in({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "RANK to be a number"));
  CHECK(contains(error_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), "RANK to be a number"));
  CHECK(contains(error_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "from 0 to 1"));
  CHECK(contains(error_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "MASTER_ADDR is not set"));
  CHECK(contains(error_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}),
                 "MASTER_PORT is not set"));
  const Variables two_hosts{{"RANK", "0"},        {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "0"},  {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_PORT", "1"}, {"MASTER_ADDR", "localhost"}};
  CHECK(contains(error_in(two_hosts), "the job has several hosts, but localhost is an address of"));
  Variables strange = two_hosts;
  strange["MASTER_PORT"] = std::to_string(free_port());
  strange["MASTER_ADDR"] = "192.0.2.1";  // reserved for documentation, never in use
  CHECK(contains(error_in(strange), "no address of rank 0's host"));
  strange["MASTER_PORT"] = "65536";
  CHECK(contains(error_in(strange), "from 1 to 65535"));
  strange["FERRITE_STORE"] = "nonsense";
  CHECK(contains(error_in(strange), "FERRITE_STORE to be host:port"));
  strange["FERRITE_STORE"] = "::1:80";
  CHECK(contains(error_in(strange), "FERRITE_STORE to be host:port"));
  LauncherEnvironment none({});
  for (const char* method :
       {"http://x", "tcp://", "tcp://host", "tcp://host:x", "file://relative"}) {
    CHECK(value_error_of([&] {
            rendezvous({.init_method = method, .rank = 0, .world_size = 1, .timeout = 1s});
          }) != "");
  }
  CHECK_THROWS_AS(
      rendezvous({.init_method = "file:///no/such/folder/x", .rank = 0, .world_size = 1}), IoError);
}

TEST_CASE("node lists, addresses and tokens") {
  CHECK(bootstrap::first_node("node07") == "node07");
  CHECK(bootstrap::first_node("a,b") == "a");
  CHECK(bootstrap::first_node("node[07-09,12],login1") == "node07");
  CHECK(bootstrap::first_node("rack[2-3]node[001,5]-ib") == "rack2node001-ib");
  CHECK(bootstrap::first_node("") == "");
  CHECK(links::parse_address("h:1", "x").text() == "h:1");
  CHECK(links::parse_address("[::1]:29500", "x").host == "::1");
  CHECK(links::parse_address("[::1]:29500", "x").text() == "[::1]:29500");
  CHECK(links::parse_address("[fe80::1%eth0]:1", "x").host == "fe80::1%eth0");
  // What is no host name does not come back from text().
  for (const std::string_view text : {"[]:1", "[[a]]:1", "a b:1", "[a]b:1", "a\n:1"})
    CHECK_THROWS_AS(links::parse_address(text, "x"), ValueError);
  CHECK_THROWS_AS(links::parse_address(std::string_view("[[[\0]]:9", 9), "x"), ValueError);
  CHECK(links::is_loopback("127.0.0.9"));
  CHECK(links::is_loopback("localhost"));
  CHECK_FALSE(links::is_loopback("192.0.2.1"));
  CHECK(bootstrap::random_token() != bootstrap::random_token());
  {
    LauncherEnvironment env({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}});
    CHECK(bootstrap::job_token() == "12.3");
  }
  LauncherEnvironment env(
      {{"FERRITE_TOKEN", "secret"}, {"SLURM_JOB_ID", "12"}, {"TORCHELASTIC_RESTART_COUNT", "4"}});
  CHECK(bootstrap::job_token() == "secret");
  CHECK(bootstrap::restart_count() == 4);
  setenv("FERRITE_TOKEN", std::string(300, 'x').c_str(), 1);
  CHECK_THROWS_AS(bootstrap::job_token(), ValueError);
}

}  // namespace
