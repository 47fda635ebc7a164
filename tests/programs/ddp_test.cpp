// DistributedDataParallel with batches of three tensors: an image, further features and a label.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/programs/recorded.h"

using namespace ferrite;

namespace {

constexpr std::int64_t kSamples = 32, kBatch = 8, kEpochs = 4;

struct Samples {
  Tensor images, features, labels;
};

/// The class is in the image's pattern and in the features, with noise on both.
Samples make_samples() {
  const Tensor labels = arange(kSamples).remainder(3);
  const Tensor patterns = test::hash_uniform({3, 1, 8, 8}, 700, 4);
  const Tensor means = test::hash_uniform({3, 5}, 701, 4);
  return {patterns.index_select(0, labels) + test::hash_uniform({kSamples, 1, 8, 8}, 702, 1),
          means.index_select(0, labels) + test::hash_uniform({kSamples, 5}, 703, 1), labels};
}

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("conv", conv_);
    register_module("norm", norm_);
    register_module("mix", mix_);
    register_module("mix_norm", mix_norm_);
    register_module("fc", fc_);
  }
  Tensor forward(const Tensor& images, const Tensor& features) {
    const Tensor x = max_pool2d(relu(norm_(conv_(images))), 2).flatten(1);
    return fc_(relu(mix_norm_(mix_(cat({x, features}, 1)))));
  }

 private:
  nn::Conv2d conv_{1, 4, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d norm_{4};
  nn::Linear mix_{4 * 4 * 4 + 5, 16, {.bias = false}};
  nn::BatchNorm1d mix_norm_{16};
  nn::Linear fc_{16, 3};
};

/// The mean loss over the ranks of each step, then this rank's of the evaluated network.
std::vector<double> train(bool sync_batch_norm, const Device& device) {
  const Samples samples = make_samples();
  Net net;
  test::set_weights(net);
  if (sync_batch_norm) parallel::convert_sync_batchnorm(net);
  net.to(device);
  parallel::DistributedDataParallel ddp(net);
  optim::SGD optimizer(ddp.parameters(), {.lr = 0.05, .momentum = 0.9});
  data::DataLoader loader(
      data::TensorDataset{samples},
      {.batch_size = kBatch / parallel::get_world_size(),
       .sampler = data::DistributedSampler(kSamples, {.rank = parallel::get_rank(),
                                                      .world_size = parallel::get_world_size(),
                                                      .shuffle = false}),
       .device = device});

  std::vector<double> losses;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (auto& [images, features, labels] : loader) {
      const Tensor loss = cross_entropy(ddp(images, features), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();

      const Tensor mean = loss.detach().clone();
      parallel::all_reduce(mean, parallel::ReduceOp::avg);
      losses.push_back(mean.item<double>());
    }
  }

  net.eval();
  NoGradGuard no_grad;
  const Tensor logits = net(samples.images.to(device), samples.features.to(device));
  losses.push_back(cross_entropy(logits, samples.labels.to(device)).item<double>());
  return losses;
}

}  // namespace

RANK_FUNCTION(program_ddp) {
  parallel::init_process_group("gloo", test::rank_init_options());
  const std::string norms = test::environment_or("NORMS", "local");
  const Device device(test::environment_or("DEVICE", "cpu"));
  const std::vector<double> losses = train(norms == "synchronized", device);
  // One process with the whole batch is what ranks with synchronized norms must equal.
  const bool whole = norms == "synchronized" || parallel::get_world_size() == 1;
  if (parallel::get_rank() == 0) test::check_losses(whole ? "whole_batch" : "ddp", losses);
  parallel::destroy_process_group();
}

TEST_CASE("two processes train as under PyTorch's DistributedDataParallel") {
  test::check_processes("program_ddp", 2);
}

TEST_CASE("two processes with SyncBatchNorm, and one process, train as PyTorch on whole batches") {
  test::check_processes("program_ddp", 2, {.environment = {{"NORMS", "synchronized"}}});
  test::check_processes("program_ddp", 1);
}

TEST_CASE("two processes with CUDA devices train as under PyTorch's DistributedDataParallel") {
  REQUIRE_CUDA(1);
  test::check_processes("program_ddp", 2, {.environment = {{"DEVICE", "cuda:0"}}});
}
