// Trains on batches held in memory, or evaluates them, and reports the speed: Ferrite's side of
// compare.py.
#include "ferrite/benchmarks/training/machine.h"
#include "ferrite/benchmarks/training/trainer.h"
#include "ferrite/core/error.h"
#include "ferrite/core/version.h"

namespace {

using namespace ferrite;

void run(const bench::Options& options) {
  bench::apply(options);
  bench::Trainer trainer(options);
  nlohmann::json info = bench::describe(Device(options.device));
  info["flops"] = trainer.flops();
  bench::serve(trainer, options, std::move(info));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(bench::kAbout);
  bench::Options options;
  bench::add_options(app, options);
  app.add_flag("--checkpoint", options.checkpoint,
               "ResNet: blocks keep only their inputs and are recomputed in backward")
      ->group("What is trained");
  const auto probe = [&] {
    nlohmann::json info = bench::describe(Device());
    info["lacks"] = bench::lacks();
    info["limits"] = bench::machine_limits(options.threads);
    return info;
  };
  return bench::serve_main(argc, argv, options, app, probe, [&] { run(options); });
}
