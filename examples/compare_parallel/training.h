// A network that trains on one device, as all strategies do it.
#pragma once

#include <memory>
#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/data/dataset.h"
#include "ferrite/examples/compare_parallel/options.h"
#include "ferrite/nn/module.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/sgd.h"

namespace examples::compare {

/// `count` images with labels on the host: synthetic ones depend on the seed, others are the first
/// of the training set. ValueError where there are fewer.
ferrite::data::Batch load_images(const Options& options, std::int64_t count);

/// With weights that depend on the seed.
std::unique_ptr<ferrite::nn::Module> make_network(const Options& options);

/// Part `index` of `parts` that are as equal as can be; ValueError where it would be empty.
ferrite::data::Batch part_of(const ferrite::data::Batch& batch, int index, int parts);

ferrite::data::Batch to_device(const ferrite::data::Batch& batch, const ferrite::Device& device,
                               const Options& options);

/// Model, optimizer and mixed precision. Does not move: optimizer and wrappers refer to the model.
class Trainee {
 public:
  Trainee(const Options& options, const std::string& amp, const ferrite::Device& device);
  Trainee(const Trainee&) = delete;
  Trainee& operator=(const Trainee&) = delete;

  ferrite::nn::Module& model() { return *model_; }
  void zero_grad() { sgd_->zero_grad(); }
  /// Runs backward from the scaled loss.
  void backward(const ferrite::Tensor& loss) { amp_->scale(loss).backward(); }
  void update() { amp_->step(*sgd_); }

 private:
  std::unique_ptr<ferrite::nn::Module> model_;
  std::unique_ptr<ferrite::optim::SGD> sgd_;
  std::optional<ferrite::optim::amp::Amp> amp_;
};

ferrite::Tensor loss_of(const ferrite::Tensor& logits, const ferrite::Tensor& labels);

}  // namespace examples::compare
