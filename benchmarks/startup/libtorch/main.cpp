// A program that trains LeNet-5 up to the end of its first step: libtorch's side of ../compare.py,
// built if libtorch's headers are found.
#include <torch/torch.h>

#include "ferrite/benchmarks/program.h"
#include "ferrite/benchmarks/training/libtorch/networks.h"

namespace {

double first_step() {
  torch::manual_seed(0);
  const torch::Tensor images = torch::rand({1024, 1, 28, 28}),
                      labels = torch::randint(0, 10, {1024}, torch::kLong);
  bench::LeNet5 model;
  torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  // A loader of the C++ frontend does this sample by sample.
  const torch::Tensor batch = torch::randperm(1024, torch::kLong).slice(0, 0, 64);
  const torch::Tensor loss = torch::cross_entropy_loss(model.forward(images.index_select(0, batch)),
                                                       labels.index_select(0, batch));
  sgd.zero_grad();
  loss.backward();
  sgd.step();
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
    torch::set_num_threads(threads);
    const double loss = first_step();
    bench::answer({{"framework", "libtorch"}, {"version", TORCH_VERSION}, {"loss", loss}});
  });
}
