// Trains a small convolutional network on digits, on as many processes as there are GPUs, or on
// CPUs: the program of many tutorials on distributed data parallelism. It starts the processes of
// its node itself:
//   ddp -g 4                                             4 GPUs (or CPU processes) of this host
//   ddp -n 2 -g 8 -nr 0 --master-addr 10.1.1.5           on the first of two nodes,
//   ddp -n 2 -g 8 -nr 1 --master-addr 10.1.1.5           and on the second
// or is started by a launcher, without those options:
//   ferrite-run --nproc-per-node 4 ddp
//   torchrun --no-python --nproc-per-node 4 ddp
//   mpirun -np 4 ddp
//   srun --ntasks-per-node 4 ddp
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/ddp/node.h"
#include "ferrite/examples/ddp/training.h"

namespace {

using namespace ferrite;

void add_options(examples::CommandLine& app, examples::ddp::Options& options) {
  examples::add_training_options(app, options, {"convnet"},
                                 {"synthetic-digits", "mnist", "fashion-mnist"});
  app.remove_option("--profile");
  app.get_option("--batch-size").description("images per step and process");
  auto& node = options.node;
  const auto positive = examples::whole(1);
  app.topic("Processes and nodes");
  app.add_option("-n,--nodes", node.nodes, "number of nodes").check(positive);
  app.add_option("-g,--gpus", node.processes,
                 "processes per node, each with its own GPU if there are GPUs")
      .check(positive);
  app.add_option("--nr", node.node_rank, "index of this node, from 0 (also -nr)")
      .check(examples::whole(0));
  app.add_option("--master-addr", node.master_addr,
                 "address of the node with -nr 0, for several nodes (default $MASTER_ADDR)");
  app.add_option("--master-port", node.master_port,
                 "free port on that node (default $MASTER_PORT, 29500)")
      .check(examples::whole(1, 65535));
  app.add_option("--backend", options.backend,
                 "communication between processes (default depends on the device)")
      .check(examples::one_of({"nccl", "gloo"}));
  app.add_flag("--sync-bn", options.sync_bn, "normalize with the statistics of all processes");
  app.add_option("--scale-lr", options.scale_lr,
                 "scale the learning rate with the number of processes")
      .check(examples::one_of({"none", "linear", "sqrt"}))
      .capture_default_str();
}

int ddp(int argc, char** argv) {
  examples::CommandLine app(
      "Trains a digit classifier on several processes.",
      {"ddp -g 2                                     # two GPUs, or two processes on the CPU",
       "ferrite-run --standalone --nproc-per-node=2 ddp",
       "ddp -n 2 -g 8 -nr 0 --master-addr 10.1.1.5   # on the first of two nodes; -nr 1 on the "
       "other"});
  examples::ddp::Options options;
  add_options(app, options);
  // After a single dash, only one-letter options are recognised.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments)
    if (argument.starts_with("-nr")) argument.insert(0, "-");
  if (const auto status = app.parse(arguments)) return *status;
  if (!options.epochs) options.epochs = 2;
  if (!options.batch_size) options.batch_size = 100;
  if (!options.lr) options.lr = 0.01;
  if (!options.optimizer) options.optimizer = "sgd";

  examples::ddp::run_on_node(options.node, [&] {
    options.device = examples::device_of_rank(options.device).str();
    const Device device = examples::apply(options);
    const examples::ProcessGroupScope group(options.backend, device, options.graph);
    examples::ddp::train(options, device);
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(ddp, argc, argv); }
