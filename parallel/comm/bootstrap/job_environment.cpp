#include "ferrite/parallel/comm/bootstrap/job_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {
namespace {

constexpr int kPortsToTry = 16;
/// Below the ephemeral ports (32768 and up).
constexpr int kFirstJobPort = 20000, kJobPorts = 10000;

using Names = std::initializer_list<const char*>;
constexpr Names kRank{"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr Names kWorldSize{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                           "SLURM_NTASKS"};
constexpr Names kLocalRank{"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           "SLURM_LOCALID"};
constexpr Names kLocalWorldSize{"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                "MPI_LOCALNRANKS"};
constexpr Names kNodes{"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"};
constexpr Names kNodeList{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"};
constexpr Names kJobNames{"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid",
                          "OMPI_MCA_ess_base_jobid"};

/// Empty variables count as unset.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

std::optional<int> number(const char* name) {
  const char* text = variable(name);
  if (!text) return std::nullopt;
  int value = 0;
  const std::string_view whole = text;
  const auto [stop, status] = std::from_chars(text, text + whole.size(), value);
  FERRITE_CHECK(status == std::errc() && stop == text + whole.size() && value >= 0, ValueError,
                "rendezvous", "expected {} to be a number from 0, got \"{}\"", name, whole);
  return value;
}

/// The value of the first of these variables that is set.
std::optional<int> first_number(Names names) {
  for (const char* name : names) {
    if (const auto value = number(name)) return value;
  }
  return std::nullopt;
}

const char* first_text(Names names) {
  for (const char* name : names) {
    if (const char* value = variable(name)) return value;
  }
  return nullptr;
}

int needed(std::optional<int> given, Names names, const char* option, const char* range) {
  if (!given) given = first_number(names);
  if (!given) {
    fail<ValueError>(
        "rendezvous",
        "{} is not set: start the program by ferrite-run, torchrun --no-python, mpirun "
        "or srun, which tell each process its rank; or set {} ({}), or InitOptions::{}",
        *names.begin(), *names.begin(), range, option);
  }
  return *given;
}

/// SLURM's job and step, "1234.0"; empty outside of SLURM.
std::string slurm_job() {
  const char* job = first_text({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return {};
  const char* step = first_text({"SLURM_STEP_ID", "SLURM_STEPID"});
  return fmt::format("{}.{}", job, step ? step : "0");
}

std::string job_name() {
  if (const char* name = first_text(kJobNames)) return name;
  return slurm_job();
}

std::string master_host(const Place& place) {
  if (const char* host = variable("MASTER_ADDR")) return host;
  const auto nodes = first_number(kNodes);
  if (place.world_size == 1 || place.local_world_size == place.world_size || nodes == 1) {
    return "localhost";
  }
  if (const char* list = first_text(kNodeList)) return first_node(list);
  fail<ValueError>("rendezvous",
                   "MASTER_ADDR is not set: the name or address of rank 0's host. ferrite-run and "
                   "torchrun set it; with mpirun over several hosts give -x MASTER_ADDR=host -x "
                   "MASTER_PORT=port; or use init_method \"tcp://host:port\" or \"file:///path\"");
}

/// Ports after `first`, or before it if there are not enough.
std::vector<std::uint16_t> ports_beside(int first, int from) {
  std::vector<std::uint16_t> ports;
  for (int i = from; i < from + kPortsToTry; ++i) {
    const int port = first + i <= 65535 ? first + i : first - i;
    ports.push_back(static_cast<std::uint16_t>(port));
  }
  return ports;
}

/// The same on all hosts, whatever the standard library's hash (FNV-1a).
std::uint32_t hash(std::string_view text) {
  std::uint32_t sum = 2166136261u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619u;
  return sum;
}

}  // namespace

Place place_in_job(std::optional<int> rank, std::optional<int> world_size) {
  Place place;
  place.rank = needed(rank, kRank, "rank", "0 to WORLD_SIZE - 1");
  place.world_size = needed(world_size, kWorldSize, "world_size", "the number of processes");
  place.local_rank = local_rank();
  place.local_world_size = first_number(kLocalWorldSize).value_or(0);
  FERRITE_CHECK(place.rank >= 0 && place.rank < place.world_size, ValueError, "rendezvous",
                "expected a rank from 0 to {}, for a world size of {}, got {}",
                place.world_size - 1, place.world_size, place.rank);
  FERRITE_CHECK(place.local_world_size <= place.world_size, ValueError, "rendezvous",
                "expected at most the {} processes of the job on one host, got {} "
                "(LOCAL_WORLD_SIZE)",
                place.world_size, place.local_world_size);
  return place;
}

int local_rank() { return first_number(kLocalRank).value_or(0); }

StorePlace store_place(const Place& place) {
  StorePlace out;
  if (const char* store = variable("FERRITE_STORE")) {
    const links::Address address = links::parse_address(store, "FERRITE_STORE");
    return {true, address.host, {address.port}, "FERRITE_STORE"};
  }
  out.host = master_host(place);
  if (const auto port = number("MASTER_PORT")) {
    FERRITE_CHECK(*port > 0 && *port <= 65535, ValueError, "rendezvous",
                  "expected MASTER_PORT to be from 1 to 65535, got {}", *port);
    const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
    const bool taken = agent && std::string_view(agent) == "True";
    out.ports = taken ? ports_beside(*port, 1)
                      : std::vector<std::uint16_t>{static_cast<std::uint16_t>(*port)};
    out.port_source = taken ? "after MASTER_PORT, where torchrun's agent listens" : "MASTER_PORT";
    return out;
  }
  const std::string job = job_name();
  FERRITE_CHECK(
      !job.empty(), ValueError, "rendezvous",
      "MASTER_PORT is not set: a free port of rank 0's host. ferrite-run and torchrun set "
      "it, and with mpirun and srun it is made of the job's number");
  out.ports = ports_beside(kFirstJobPort + static_cast<int>(hash(job) % kJobPorts), 0);
  out.port_source = fmt::format("made of the job's name, {}", job);
  return out;
}

std::string job_token() {
  const char* token = variable("FERRITE_TOKEN");
  std::string out = token ? token : job_name();
  constexpr std::size_t longest = protocol::kMaxToken - 32;  // the restart count is appended
  FERRITE_CHECK(!token || out.size() <= longest, ValueError, "rendezvous",
                "expected FERRITE_TOKEN to have at most {} bytes, got {}", longest, out.size());
  out.resize(std::min(out.size(), longest));
  return out;
}

const char* bind_address() { return variable("FERRITE_BIND_ADDR"); }

int restart_count() {
  return first_number({"FERRITE_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"}).value_or(0);
}

std::string first_node(std::string_view node_list) {
  // The first name ends at a comma outside brackets; of each "[07-09,12]" in it the first number
  // counts.
  std::string name;
  bool in_brackets = false, first_number = false;
  for (const char c : node_list) {
    if (c == '[') {
      in_brackets = first_number = true;
    } else if (c == ']') {
      in_brackets = false;
    } else if (in_brackets) {
      first_number = first_number && c != ',' && c != '-';
      if (first_number) name += c;
    } else if (c == ',') {
      break;
    } else {
      name += c;
    }
  }
  return name;
}

}  // namespace ferrite::parallel::bootstrap
