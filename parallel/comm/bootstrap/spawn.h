// spawn: a function as the ranks of a job, each a process of this host
// (torch.multiprocessing.spawn).
//
//   int main() {
//     mp::spawn([](int rank) {
//       dist::init_process_group("gloo");
//       train(rank);
//       dist::destroy_process_group();
//     }, 4);
//   }
//
// The processes are new starts of this program, by the same command line, as those of Python's
// method "spawn": a fork alone would take over neither threads nor CUDA, which the program has used
// as soon as it has asked how many devices there are. Each process therefore runs main() again up
// to this call, which does not return there: it calls the function, and the process ends. What the
// function captures has been made anew; work that only one process is to do belongs behind the
// call, or into the function. Calls before this one, which are over, return at once in it.
#pragma once

#include <functional>
#include <string>

namespace ferrite::parallel {

/// The options of spawn().
struct SpawnOptions {
  /// For a job on several hosts, each of which calls spawn() with as many processes: their number,
  /// and that of this one. They then need MASTER_ADDR and MASTER_PORT, here or in the environment.
  int nodes = 1, node_rank = 0;
  std::string master_addr = {};  ///< default: MASTER_ADDR; on one host 127.0.0.1
  int master_port = 0;           ///< default: MASTER_PORT; on one host a free port
};

/// Runs f(rank) in `nprocs` processes, and waits for them. They have RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which init_process_group() reads, a common secret
/// for it, and a share of the host's processors (FERRITE_NUM_THREADS, unless that or
/// OMP_NUM_THREADS is set). `rank` is that in the job.
///
/// If one fails, the others are ended, and there is a DistributedError with its rank and the
/// message of its exception, or the signal that ended it. Where several fail, it is that of one
/// whose error is not the loss of another rank. ValueError for fewer than one process, and inside
/// of a spawned function.
void spawn(const std::function<void(int rank)>& f, int nprocs, const SpawnOptions& options = {});
/// Whether this process was started by spawn(), also before it comes to that call.
bool is_spawned();

}  // namespace ferrite::parallel

namespace ferrite {
namespace mp = parallel;
}  // namespace ferrite
