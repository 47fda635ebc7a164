#include "ferrite/examples/common/optimizers.h"

#include "ferrite/core/error.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/lamb.h"
#include "ferrite/optim/lars.h"
#include "ferrite/optim/rmsprop.h"
#include "ferrite/optim/sgd.h"

namespace examples {

namespace optim = ferrite::optim;

namespace {

template <class O, class Options>
std::unique_ptr<optim::Optimizer> make(const std::vector<ferrite::Tensor>& parameters,
                                       const OptimizerSettings& settings, Options options = {}) {
  options.lr = settings.lr;
  options.weight_decay = settings.weight_decay.value_or(options.weight_decay);
  return std::make_unique<O>(parameters, options);
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<ferrite::Tensor>& parameters,
                                                 const OptimizerSettings& settings) {
  if (name == "sgd")
    return make<optim::SGD, optim::SGDOptions>(parameters, settings,
                                               {.momentum = settings.momentum});
  if (name == "adam") return make<optim::Adam, optim::AdamOptions>(parameters, settings);
  if (name == "adamw") return make<optim::AdamW, optim::AdamWOptions>(parameters, settings);
  if (name == "rmsprop") return make<optim::RMSprop, optim::RMSpropOptions>(parameters, settings);
  if (name == "lars")
    return make<optim::LARS, optim::LARSOptions>(parameters, settings,
                                                 {.momentum = settings.momentum});
  if (name == "lamb") return make<optim::LAMB, optim::LAMBOptions>(parameters, settings);
  ferrite::fail<ferrite::ValueError>(
      "optimizer", "expected sgd, adam, adamw, rmsprop, lars or lamb, got '{}'", name);
}

}  // namespace examples
