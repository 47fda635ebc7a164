#include "ferrite/optim/early_stopping.h"

#include <utility>

#include "ferrite/autograd/grad_mode.h"

namespace ferrite::optim {

namespace {

constexpr const char* kEarlyStopping = "EarlyStopping";
constexpr std::string_view kWeights = "weights.";

}  // namespace

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : o_(options), best_(options.mode.worst()) {
  check_fields(
      {{"patience", &o_.patience, kNonNegative}, {"min_delta", &o_.min_delta, kNonNegative}},
      kEarlyStopping);
}

bool EarlyStopping::note(double metric) {
  ++epoch_;
  const double sign = o_.mode == MetricGoal::min ? -1 : 1;
  const bool better = o_.mode.is_better(metric, best_ + sign * o_.min_delta);
  num_bad_epochs_ = better ? 0 : num_bad_epochs_ + 1;
  if (better) {
    best_ = metric;
    best_epoch_ = epoch_;
  }
  return better;
}

bool EarlyStopping::step(double metric) {
  FERRITE_CHECK(!o_.restore_best_weights, ValueError, kEarlyStopping,
                "restore_best_weights needs the model: step(metric, model)");
  note(metric);
  return should_stop();
}

bool EarlyStopping::step(double metric, nn::Module& model) {
  const bool better = note(metric);
  if (!o_.restore_best_weights) return should_stop();
  if (better) {
    const NoGradGuard guard;
    best_weights_ = model.state_dict().clone();
  }
  if (should_stop() && !best_weights_.empty()) restore_best(model);
  return should_stop();
}

void EarlyStopping::restore_best(nn::Module& model) const {
  FERRITE_CHECK(!best_weights_.empty(), ValueError, kEarlyStopping,
                "no weights were kept: set restore_best_weights, and give step() the model");
  model.load_state_dict(best_weights_);
}

Fields EarlyStopping::fields() {
  return {{"best", &best_},
          {"best_epoch", &best_epoch_},
          {"epoch", &epoch_},
          {"num_bad_epochs", &num_bad_epochs_}};
}

StateDict EarlyStopping::state_dict() const {
  StateDict dict;
  save_fields(const_cast<EarlyStopping*>(this)->fields(), dict, "");
  dict.insert_all(kWeights, best_weights_);
  return dict;
}

void EarlyStopping::load_state_dict(const StateDict& dict) {
  for (const bool check_only : {true, false})
    load_fields(fields(), dict, "", kEarlyStopping, check_only);
  StateDict weights;
  for (const auto& [name, tensor] : dict)
    if (name.starts_with(kWeights)) weights.insert(name.substr(kWeights.size()), tensor.clone());
  best_weights_ = std::move(weights);
}

}  // namespace ferrite::optim
