// A program that trains LeNet-5 like an example, up to the end of its first step: Ferrite's side of
// compare.py, which measures from before the start of this process to the line of JSON.
#include <ferrite/ferrite.h>

#include "ferrite/benchmarks/program.h"

namespace {

using namespace ferrite;

double first_step() {
  manual_seed(0);
  data::DataLoader loader(data::TensorDataset(rand({1024, 1, 28, 28}), randint(0, 10, {1024})),
                          {.batch_size = 64, .shuffle = true});
  nn::LeNet5 model;
  optim::SGD sgd(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  Tensor loss;
  for (auto& [images, labels] : loader) {
    loss = cross_entropy(model(images), labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    break;
  }
  return loss.item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains LeNet-5 for one step and answers by a line of JSON.");
  int threads = 1;
  app.option_defaults()->group("Measurement");
  app.add_option("--threads", threads, "CPU threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return bench::run(app, argc, argv, [&] {
    set_num_threads(threads);
    const double loss = first_step();
    bench::answer({{"framework", "Ferrite"}, {"version", FERRITE_VERSION}, {"loss", loss}});
  });
}
