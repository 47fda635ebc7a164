#include "examples/common/optimizers.h"

#include "core/error.h"
#include "optim/adam.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"

namespace examples {

namespace optim = ferrite::optim;

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<ferrite::Tensor>& parameters,
                                                 double lr, double momentum) {
  if (name == "sgd")
    return std::make_unique<optim::SGD>(parameters,
                                        optim::SGDOptions{.lr = lr, .momentum = momentum});
  if (name == "adam")
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = lr});
  if (name == "adamw")
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = lr});
  if (name == "rmsprop")
    return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions{.lr = lr});
  ferrite::fail<ferrite::ValueError>("optimizer", "expected sgd, adam, adamw or rmsprop, got '{}'",
                                     name);
}

}  // namespace examples
