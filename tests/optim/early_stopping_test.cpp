#include "ferrite/optim/early_stopping.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/linear.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"

using namespace ferrite;
using optim::EarlyStopping;

namespace {

/// The number of epochs until it stops; 0 if it does not.
std::size_t epochs(EarlyStopping stopping, const std::vector<double>& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (stopping.step(metrics[i])) return i + 1;
  return 0;
}

void set(nn::Linear& model, double value) {
  const NoGradGuard guard;
  model.weight.fill_(value);
}

}  // namespace

TEST_CASE("it stops after `patience` epochs in a row without improvement") {
  CHECK(epochs(EarlyStopping(2), {5, 4, 4, 3, 3, 3}) == 6);
  CHECK(epochs(EarlyStopping(1), {5, 4, 4}) == 3);
  CHECK(epochs(EarlyStopping(0), {5, 4, 4}) == 3);
  CHECK(epochs(EarlyStopping(), {1, 1, 1}) == 0);
  CHECK(epochs(EarlyStopping(), {1, 1, 1, 1}) == 4);
  CHECK(epochs(EarlyStopping({.patience = 2, .mode = "max"}), {1, 2, 1, 1}) == 4);
  CHECK(epochs(EarlyStopping(2, 0.5), {5, 4.6, 4.55}) == 3);
  CHECK(epochs(EarlyStopping(2, 0.5), {5, 4.4, 4.3, 4.2}) == 4);
  CHECK(epochs(EarlyStopping(2), {NAN, NAN}) == 2);
  CHECK_THROWS_AS(EarlyStopping(-1), ValueError);
  CHECK_THROWS_AS(EarlyStopping(1, -0.1), ValueError);
  CHECK_THROWS_AS(EarlyStopping({.mode = "largest"}), ValueError);
}

TEST_CASE("the best weights come back") {
  nn::Linear model(2, 1);
  EarlyStopping stopping({.patience = 2, .restore_best_weights = true});
  const std::vector<double> losses = {3, 1, 2, 2};
  bool stopped = false;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    set(model, static_cast<double>(i));
    stopped = stopping.step(losses[i], model);
  }
  CHECK(stopped);
  CHECK(stopping.best() == 1);
  CHECK(stopping.best_epoch() == 1);
  CHECK(model.weight.sum().item<double>() == 2);
  set(model, 9);
  stopping.restore_best(model);
  CHECK(model.weight.sum().item<double>() == 2);
  CHECK_THROWS_AS(stopping.step(1.0), ValueError);
  CHECK_THROWS_AS(EarlyStopping().restore_best(model), ValueError);
}

TEST_CASE("a resumed run stops where it would have, with the same weights") {
  nn::Linear model(2, 1);
  EarlyStopping first({.patience = 2, .restore_best_weights = true});
  set(model, 4);
  first.step(1, model);
  set(model, 5);
  first.step(2, model);
  EarlyStopping second({.patience = 2, .restore_best_weights = true});
  second.load_state_dict(first.state_dict());
  CHECK(second.best() == 1);
  CHECK(second.num_bad_epochs() == 1);
  CHECK_FALSE(second.should_stop());
  CHECK(second.step(3, model));
  CHECK(second.best_epoch() == 0);
  CHECK(model.weight.sum().item<double>() == 8);
  StateDict incomplete = first.state_dict();
  incomplete.erase("best");
  CHECK_THROWS_AS(second.load_state_dict(incomplete), ValueError);
}
