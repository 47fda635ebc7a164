// What the program that started this process says of the job: torchrun and ferrite-run, mpirun
// (Open MPI; MPICH and Intel MPI by PMI), srun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::parallel::bootstrap {

/// This process among the job's.
struct Place {
  int rank = 0, world_size = 1;
  int local_rank = 0;        ///< among those of its host; 0 where nobody says
  int local_world_size = 0;  ///< 0 where nobody says
};

/// Rank and size given here go before RANK and WORLD_SIZE, these before OMPI_COMM_WORLD_RANK and
/// _SIZE, PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS. ValueError
/// where nobody says, naming the variables and who would set them, or where they contradict.
Place place_in_job(std::optional<int> rank = {}, std::optional<int> world_size = {});
/// LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID; 0 where nobody says.
int local_rank();

/// Where the store of this job is to be found.
struct StorePlace {
  /// The launcher serves it (FERRITE_STORE), else rank 0 does.
  bool served_by_launcher = false;
  std::string host;
  /// In which order rank 0 tries to listen, and the others look for it.
  std::vector<std::uint16_t> ports;
  std::string port_source;  ///< "MASTER_PORT", for messages
};

/// By FERRITE_STORE=host:port; else MASTER_ADDR and MASTER_PORT, or what can be told from SLURM's
/// node list and job number, or localhost for jobs of one host. Where torchrun's own agent listens
/// on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True) the ports are those after it. ValueError
/// where they cannot be told.
StorePlace store_place(const Place& place);

/// What a client of the store must present: FERRITE_TOKEN, which should be secret, else what the
/// launcher calls the job (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE, SLURM_JOB_ID...), else nothing.
std::string job_token();
/// How often the job was started before: FERRITE_RESTART_COUNT, TORCHELASTIC_RESTART_COUNT; else 0.
int restart_count();

/// The first name of a node list of SLURM's: "node07" of "node[07-09,12],login1".
std::string first_node(std::string_view node_list);

}  // namespace ferrite::parallel::bootstrap
