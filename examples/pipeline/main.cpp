// Trains a network whose layers are split over devices. Every batch passes through this pipeline of
// stages in micro-batches, so that all devices work at the same time (GPipe).
//   pipeline                                    two GPUs if there are as many, else cpu:0 and cpu:1
//   pipeline --stages 4 --chunks 8              four of them
//   pipeline --devices cuda:0,cuda:1            two GPUs
//   pipeline --model convnet --checkpoint never
// Before training, it measures the same steps on the first device alone; afterwards it prints the
// times of the stages.

#include "ferrite/core/parallel_for.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/pipeline/training.h"

namespace {

using namespace ferrite;

int pipeline(int argc, char** argv) {
  examples::CommandLine app("Trains a network as a pipeline of stages on several devices.",
                            {"pipeline --stages 2 --chunks 8 --epochs 1",
                             "pipeline --devices cuda:0,cuda:1 --checkpoint never"});
  examples::pipeline::Options options;
  examples::add_training_options(app, options, {"resnet18", "convnet"},
                                 {"synthetic-digits", "mnist", "fashion-mnist", "cifar10"});
  for (const char* other :
       {"--device", "--graph", "--report", "--curves", "--log", "--tensorboard", "--profile"})
    app.remove_option(other);
  app.topic("Pipeline");
  app.add_option("--stages", options.stages, "number of stages")
      .check(examples::whole(1, 16))
      .capture_default_str();
  app.add_option("--devices", options.devices,
                 "devices of the stages (default CUDA devices if there are enough, otherwise "
                 "cpu:0, cpu:1, ...)")
      .delimiter(',');
  app.add_option("--chunks", options.chunks, "micro-batches per batch")
      .check(examples::whole(1))
      .capture_default_str();
  app.add_option("--checkpoint", options.checkpoint,
                 "micro-batches whose activations are recomputed during backward")
      .check(examples::one_of({"always", "except_last", "never"}))
      .capture_default_str();
  app.add_option("--balance", options.balance, "what stages have equal parts of; size: of memory")
      .check(examples::one_of({"time", "size", "layers"}))
      .capture_default_str();
  app.add_option("--width", options.width, "channels of the first stage of ResNet-18")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--measured-steps", options.measured,
                 "steps to measure on one device and on all (0: none)")
      .check(examples::whole<std::int64_t>(0))
      .capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;
  if (!options.devices.empty() && app.get_option("--stages").count() == 0)
    options.stages = static_cast<int>(options.devices.size());
  if (!options.epochs) options.epochs = 1;
  if (!options.batch_size) options.batch_size = 64;
  if (!options.lr) options.lr = 0.05;
  if (!options.optimizer) options.optimizer = "sgd";

  const std::vector<Device> devices = examples::pipeline::devices_of(options);
  // By default, a virtual device uses one core, because otherwise each would use all cores.
  if (devices[0].is_cpu() && !devices[0].is_host() && options.threads == 0) options.threads = 1;
  options.device = devices[0].str();
  examples::apply(options);
  examples::pipeline::train(options, devices);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(pipeline, argc, argv); }
