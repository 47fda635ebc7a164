#include "ferrite/examples/lenet/model.h"

#include "ferrite/core/error.h"
#include "ferrite/nn/models/lenet.h"

namespace examples::lenet {

Recipe recipe_for(const TrainingOptions& options) {
  Recipe recipe;
  if (options.model == "d2l")
    recipe = {.batch_size = 256, .optimizer = "sgd", .lr = 0.2, .momentum = 0, .cosine = false};
  if (options.dataset != "fashion-mnist" && options.model != "d2l") recipe.epochs = 5;
  if (options.optimizer && *options.optimizer != "sgd") {
    recipe.optimizer = *options.optimizer;
    recipe.lr = 1e-3;
  }
  recipe.epochs = options.epochs.value_or(recipe.epochs);
  recipe.batch_size = options.batch_size.value_or(recipe.batch_size);
  recipe.lr = options.lr.value_or(recipe.lr);
  return recipe;
}

std::unique_ptr<ferrite::nn::Module> make_model(const std::string& name) {
  if (name == "d2l") return std::make_unique<ferrite::nn::D2LLeNet>();
  FERRITE_CHECK(name == "lenet5", ferrite::ValueError, "model", "expected lenet5 or d2l, got '{}'",
                name);
  return std::make_unique<ferrite::nn::LeNet5>();
}

}  // namespace examples::lenet
