// Float32 masters of 16-bit weights, in every optimizer.
#include <doctest/doctest.h>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/views.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/optim/optimizers.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

TEST_CASE("masters take exact steps, and the weights are what they round to") {
  for (const test::NamedOptimizer& named : test::all_optimizers())
    for (DType half : {kFloat16, kBFloat16}) {
      CAPTURE(named.name);
      // Channels-last, a transposed view that is no dense array, and one that stays float32.
      Generator generator(1);
      const auto random = [&](const Shape& shape) { return randn(shape, {}, &generator); };
      const std::vector<Tensor> values{random({2, 3, 4, 4}).contiguous(kChannelsLast),
                                       random({6, 5}), random({7})};
      std::vector<Tensor> exact, model;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Tensor rounded = values[i].to(half);
        exact.push_back((i < 2 ? rounded.to(kFloat32) : values[i].clone()).set_requires_grad());
        model.push_back((i == 0   ? rounded
                         : i == 1 ? zeros({5, 12}, {.dtype = half}).narrow(1, 0, 6).transpose(0, 1)
                                  : values[i].clone())
                            .set_requires_grad());
        if (i == 1) no_grad([&] { model[1].copy_(rounded); });
      }
      const auto reference = named.make(exact), optimizer = named.make(model);
      optimizer->use_master_weights();
      CHECK(optimizer->has_master_weights());
      const std::vector<Tensor> masters = optimizer->master_parameters();
      CHECK(masters[2].is_same(model[2]));
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          const Tensor grad = random(values[i].shape()).to(model[i].dtype());
          model[i].set_grad(grad);
          exact[i].set_grad(grad.to(kFloat32));
        }
        if (step == 1)  // by way of gradients of the masters
          for (const auto& [from, to] : optimizer->make_master_gradients()) to.copy_(from);
        optimizer->step();
        CHECK_FALSE(masters[0].grad().defined());
        reference->step();
        for (std::size_t i = 0; i < values.size(); ++i) {
          check_equal(masters[i].detach(), exact[i].detach());
          check_equal(model[i].detach(), exact[i].detach().to(model[i].dtype()));
        }
      }
      CHECK(optimizer->state_dict().at("state.0.master").dtype() == kFloat32);
      no_grad([&] { model[0].fill_(2); });
      optimizer->reset_master_weights();
      check_equal(masters[0].detach(), full_like(masters[0].detach(), 2));
      model[0].set_data(model[0].detach().to(kFloat32));  // of its own precision again
      model[0].set_grad({});
      optimizer->step();
      optimizer->reset_master_weights();
      CHECK(optimizer->master_parameters()[0].is_same(model[0]));
    }
}

TEST_CASE("parameters that take the place of others have masters of their own") {
  const auto half = [](double value) {
    return full({2}, value, {.dtype = kBFloat16}).set_requires_grad();
  };
  const Tensor stays = half(1), goes = half(1);
  optim::SGD sgd({stays, goes}, {.lr = 1e-4});
  sgd.use_master_weights();
  const auto steps = [&] {
    for (int step = 0; step < 100; ++step) {
      for (const Tensor& p : sgd.parameters()) p.set_grad(ones_like(p));
      sgd.step();
    }
  };
  steps();
  const Tensor comes = half(3), wide = full({2}, 3.0).set_requires_grad();
  sgd.replace_parameters([&](const Tensor& p) { return p.is_same(goes) ? comes : p; });
  steps();  // of 1e-4, which round to nothing in 16 bits
  check_close(sgd.master_parameters()[0], {0.98, 0.98}, 1e-4);
  check_close(sgd.master_parameters()[1], {2.99, 2.99}, 1e-4);
  check_equal(comes.detach(), sgd.master_parameters()[1].detach().to(kBFloat16));
  sgd.replace_parameters([&](const Tensor& p) { return p.is_same(comes) ? wide : p; });
  CHECK(sgd.master_parameters()[1].is_same(wide));
  CHECK(sgd.has_master_weights());
}
