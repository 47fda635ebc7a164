// Job settings from the environment set by the launcher: torchrun and ferrite-run, mpirun (Open
// MPI; MPICH and Intel MPI by PMI), srun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::parallel::bootstrap {

/// The position of this process in the job.
struct Place {
  int rank = 0, world_size = 1;
  int local_rank = 0;        ///< among those of its host; 0 if not given
  int local_world_size = 0;  ///< 0 if not given
};

/// Rank and size given here take precedence over RANK and WORLD_SIZE, these over
/// OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS or
/// SLURM_NTASKS. ValueError if none is set, naming the variables and the launchers that set them,
/// or if they contradict.
Place place_in_job(std::optional<int> rank = {}, std::optional<int> world_size = {});
/// LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID; 0 if none is set.
int local_rank();

/// Where to find the store of this job.
struct StorePlace {
  /// True if the launcher serves it (FERRITE_STORE); else rank 0 does.
  bool served_by_launcher = false;
  std::string host;  ///< the address of the store
  /// In the order in which rank 0 tries to listen, and the others look for it.
  std::vector<std::uint16_t> ports;
  std::string port_source;  ///< "MASTER_PORT", for messages
};

/// From FERRITE_STORE=host:port; else from MASTER_ADDR and MASTER_PORT, or derived from SLURM's
/// node list and job number, or localhost for jobs on one host. If torchrun's own agent listens on
/// MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True), the ports after it are used. ValueError if they
/// cannot be determined.
StorePlace store_place(const Place& place);

/// The token that a client of the store must present: FERRITE_TOKEN, which should be secret, else
/// the launcher's name of the job (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE, SLURM_JOB_ID...), else
/// nothing.
std::string job_token();
/// FERRITE_BIND_ADDR: where to listen instead of at the address that others connect to; null if it
/// is not set.
const char* bind_address();
/// The number of previous starts of the job: FERRITE_RESTART_COUNT, TORCHELASTIC_RESTART_COUNT;
/// else 0.
int restart_count();

/// The first name in a SLURM node list: "node07" for "node[07-09,12],login1".
std::string first_node(std::string_view node_list);

}  // namespace ferrite::parallel::bootstrap
