// Ranks that train on parts of a batch with DistributedDataParallel, against a single process that
// has the whole batch.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/nn/loss.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

struct DdpTraining {
  std::function<std::unique_ptr<nn::Module>()> make;
  Shape batch = {12, 1, 28, 28};  ///< divisible by 2, 3 and 4
  std::int64_t classes = 10;
  DType dtype = kFloat32;  ///< of images
  int steps = 50;
  int batches = 3;  ///< number of distinct ones, used in turn
  double lr = 0.02;
  MemoryFormat format = kContiguous;
  parallel::DDPOptions options = {};
  std::vector<Device> devices = {};  ///< of ranks; empty: the host

  Tensor images(int step) const {
    manual_seed(100 + static_cast<std::uint64_t>(step % batches));
    return randn(batch).to(dtype).contiguous(format);
  }
  Tensor labels(int step) const {
    std::vector<std::int64_t> y;
    for (std::int64_t i = 0; i < batch[0]; ++i) y.push_back((i * 7 + step % batches) % classes);
    return from_vector(y, {batch[0]});
  }
};

/// On the host.
inline std::vector<Tensor> state_of(const nn::Module& module) {
  std::vector<Tensor> out;
  for (const auto& [name, t] : module.state_dict()) out.push_back(t.cpu().clone());
  return out;
}

inline void check_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor x = a[i].contiguous(), y = b[i].contiguous();
    CHECK(x.shape() == y.shape());
    CHECK(std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
  }
}

/// Steps of `model(...)` on the samples from `begin` to `end` of each batch.
template <class Model>
void train(const DdpTraining& c, Model& model, const std::vector<std::pair<Tensor, Tensor>>& data,
           std::int64_t begin, std::int64_t end, const Device& device) {
  optim::SGD sgd(model.parameters(), {.lr = c.lr, .momentum = 0.9, .weight_decay = 1e-4});
  for (int step = 0; step < c.steps; ++step) {
    const auto& [x, y] = data[static_cast<std::size_t>(step % c.batches)];
    const Tensor images = x.narrow(0, begin, end - begin).contiguous(c.format).to(device);
    const Tensor labels = y.narrow(0, begin, end - begin).to(device);
    sgd.zero_grad();
    cross_entropy(model(images), labels).backward();
    sgd.step();
  }
}

inline std::vector<std::pair<Tensor, Tensor>> data_of(const DdpTraining& c) {
  std::vector<std::pair<Tensor, Tensor>> data;
  for (int i = 0; i < c.batches; ++i) data.emplace_back(c.images(i), c.labels(i));
  return data;
}

/// A model with weights drawn from `seed`.
inline std::unique_ptr<nn::Module> make_seeded(const DdpTraining& c, std::uint64_t seed) {
  manual_seed(seed);
  std::unique_ptr<nn::Module> model = c.make();
  if (c.format == kChannelsLast) model->to(kChannelsLast);
  return model;
}

inline std::vector<Tensor> train_alone(const DdpTraining& c) {
  const auto model = make_seeded(c, 1);
  train(c, *model, data_of(c), 0, c.batch[0], Device());
  return state_of(*model);
}

/// The final state of one rank of `size`.
inline std::vector<Tensor> train_rank(const DdpTraining& c, nn::Module& model, int rank, int size,
                                      const std::vector<std::pair<Tensor, Tensor>>& data) {
  const Device device = c.devices.empty() ? Device() : c.devices[static_cast<std::size_t>(rank)];
  model.to(device);
  parallel::DistributedDataParallel ddp(model, c.options);
  const std::int64_t share = c.batch[0] / size;
  train(c, ddp, data, rank * share, (rank + 1) * share, device);
  return state_of(model);
}

/// Ranks whose models start with different weights end with the weights of a single process that
/// started with rank 0's, and all with the same bits.
inline void check_ddp_training(const DdpTraining& c, const std::vector<int>& sizes,
                               double tolerance = 1e-5) {
  const std::vector<Tensor> expected = train_alone(c);
  const auto data = data_of(c);
  for (const int size : sizes) {
    CAPTURE(size);
    std::vector<std::unique_ptr<nn::Module>> models;
    for (int r = 0; r < size; ++r) models.push_back(make_seeded(c, 1 + static_cast<unsigned>(r)));
    std::vector<std::vector<Tensor>> ended(static_cast<std::size_t>(size));
    parallel::run_ranks(size,
                        [&](parallel::ProcessGroup& group) {
                          const auto r = static_cast<std::size_t>(group.rank());
                          ended[r] = train_rank(c, *models[r], group.rank(), size, data);
                        },
                        {.timeout = std::chrono::seconds(60)});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      check_close(ended[0][i], expected[i], tolerance, tolerance);
    }
    for (int r = 1; r < size; ++r) check_same_bits(ended[0], ended[static_cast<std::size_t>(r)]);
  }
}

}  // namespace ferrite::test
