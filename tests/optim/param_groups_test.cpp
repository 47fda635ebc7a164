#include "ferrite/optim/param_groups.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/adaptive.h"
#include "ferrite/optim/muon.h"
#include "ferrite/optim/rmsprop.h"
#include "ferrite/optim/sgd.h"

using namespace ferrite;
using optim::param_groups;
using optim::SGDOptions;

namespace {

/// "conv1" [2, 1, 3, 3] with a bias, "bn1", "fc".
class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("conv1", conv1_);
    register_module("bn1", bn1_);
    register_module("fc", fc_);
  }
  Tensor forward(const Tensor& x) override { return fc_(bn1_(conv1_(x)).flatten(1)); }

 private:
  nn::Conv2d conv1_{1, 2, 3};
  nn::BatchNorm2d bn1_{2};
  nn::Linear fc_{2, 3};
};

/// The names of a group's parameters, separated by spaces.
std::string names(const nn::Module& model, const std::vector<Tensor>& parameters) {
  std::string text;
  for (const auto& [name, t] : model.named_parameters())
    for (const Tensor& p : parameters)
      if (p.is_same(t)) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace

TEST_CASE("no decay on biases and norms") {
  const Net net;
  optim::SGD sgd(
      param_groups(net, SGDOptions{.lr = 0.1, .weight_decay = 1e-4}, {optim::no_decay()}));
  REQUIRE(sgd.num_groups() == 2);
  CHECK(names(net, sgd.parameters(0)) == "conv1.weight fc.weight");
  CHECK(names(net, sgd.parameters(1)) == "conv1.bias bn1.weight bn1.bias fc.bias");
  CHECK(sgd.options(0).weight_decay == 1e-4);
  CHECK(sgd.options(1).weight_decay == 0);
  CHECK(sgd.lr(1) == 0.1);
}

TEST_CASE("rules by name add up, in their order") {
  const Net net;
  const auto groups = param_groups(net, optim::AdamWOptions{.lr = 1, .weight_decay = 0.5},
                                   {{"conv1, bn*", {.lr_scale = 0.1}},
                                    {"*.bias", {.weight_decay = 0}},
                                    {"fc.bias", {.lr = 3, .lr_scale = 2}}});
  REQUIRE(groups.size() == 4);
  CHECK(names(net, groups[0].parameters) == "conv1.weight bn1.weight");
  CHECK(groups[0].options.lr == 0.1);
  CHECK(groups[0].options.weight_decay == 0.5);
  CHECK(names(net, groups[1].parameters) == "conv1.bias bn1.bias");
  CHECK(groups[1].options.weight_decay == 0);
  CHECK(names(net, groups[2].parameters) == "fc.weight");
  CHECK(groups[2].options.lr == 1);
  CHECK(groups[3].options.lr == 6);
  CHECK(groups[3].options.weight_decay == 0);
  CHECK(param_groups(net, SGDOptions(), {}).size() == 1);
  CHECK(param_groups(net, SGDOptions(), {})[0].parameters.size() == 6);
}

TEST_CASE("rates fall from layer to layer towards the input") {
  const Net net;
  auto rules = optim::layer_decay({"conv1", "bn1", "fc"}, 0.5);
  rules.push_back(optim::no_decay());
  const auto groups = param_groups(net, SGDOptions{.lr = 8, .weight_decay = 1}, rules);
  const auto lr_of = [&](const std::string& name) {
    for (const auto& g : groups)
      if (names(net, g.parameters).find(name) != std::string::npos) return g.options.lr;
    return -1.0;
  };
  CHECK(lr_of("conv1.weight") == 2);
  CHECK(lr_of("conv1.bias") == 2);
  CHECK(lr_of("bn1.weight") == 4);
  CHECK(lr_of("fc.weight") == 8);
  CHECK(groups.size() == 5);
}

TEST_CASE("a pattern that nothing fits is an error with the closest names") {
  const Net net;
  CHECK_THROWS_WITH_AS(param_groups(net, SGDOptions(), {{"conv2", {.lr = 1}}}),
                       doctest::Contains("conv1"), ValueError);
  CHECK_THROWS_AS(optim::layer_decay({"fc"}, 0), ValueError);
  CHECK_THROWS_AS(optim::SGD(param_groups(net, SGDOptions(), {{"fc", {.lr = -1}}})), ValueError);
  CHECK(net.parameters("*.bias").size() == 3);
  CHECK(net.parameters("fc, conv1").size() == 4);
}

TEST_CASE("groups are read and changed whatever the optimizer") {
  nn::Linear layer(2, 3);
  const auto first = [&] { return layer.weight.detach().to_vector<float>(); };
  optim::SGD sgd({{{layer.weight}, {.lr = 0.5}}, {{layer.bias}, {.lr = 0.25, .momentum = 0.5}}});
  optim::Adam adam(layer.parameters(), {.lr = 0.5});
  for (optim::Optimizer* optimizer : std::vector<optim::Optimizer*>{&sgd, &adam}) {
    CHECK(optimizer->param_groups().size() == optimizer->num_groups());
    for (auto& group : optimizer->param_groups()) group.lr *= 0.5;
    CHECK(optimizer->lr() == 0.25);
    CHECK(optimizer->param_groups()[0].params()[0].is_same(layer.weight));
    for (auto group : optimizer->param_groups()) group["weight_decay"] = 0.5;
    CHECK_THROWS_AS(optimizer->param_groups().at(2), std::out_of_range);
  }
  CHECK(sgd.options(1).weight_decay == 0.5);
  CHECK(adam.options().weight_decay == 0.5);
  optim::Optimizer& any = sgd;
  CHECK(any.param_groups()[1]["momentum"] == 0.5);
  CHECK(static_cast<optim::Optimizer&>(adam).param_groups()[0]["betas.1"] == 0.999);
  CHECK_THROWS_WITH_AS(any.param_groups()[0]["wieght_decay"],
                       doctest::Contains("a group has no number 'wieght_decay'; it has lr"),
                       IndexError);
  // The next step uses them.
  layer.weight.detach().fill_(2);
  any.param_groups()[0].lr = 1;
  layer(zeros({1, 2})).sum().backward();
  any.step();  // gradient 0, decay 0.5
  CHECK(first() == std::vector<float>(6, 1));
  sgd.add_param_group({{ones({2}).set_requires_grad()}, {.lr = 3}});
  CHECK(any.lr(2) == 3);
}

TEST_CASE("a group that is added has the optimizer's options, but for what is different") {
  const auto w = [] { return ones({2}).set_requires_grad(); };
  const Tensor a = w(), b = w();
  const SGDOptions made{.lr = 0.5, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true};
  optim::SGD sgd({a}, made);
  sgd.set_lr(0.1);  // what schedules change is no option of the constructor
  sgd.options().weight_decay = 0;
  sgd.add_param_group({b});
  CHECK(sgd.lr(1) == 0.5);
  sgd.add_param_group({w()}, {.lr = 1});
  CHECK(sgd.lr(2) == 1);
  sgd.add_param_group({{w(), w()}, {.lr_scale = 2, .weight_decay = 0}});
  CHECK(sgd.lr(3) == 1);
  sgd.add_param_group({w()}, {});
  sgd.add_param_group({{w(), w()}});
  sgd.add_param_group(optim::ChangedGroup{{w()}, {.weight_decay = 0}});
  for (std::size_t g = 1; g < sgd.num_groups(); ++g) {
    CAPTURE(g);
    CHECK(sgd.options(g).momentum == 0.9);
    CHECK(sgd.options(g).nesterov);
    CHECK(sgd.options(g).weight_decay == (g == 3 || g == 6 ? 0 : 1e-3));
  }
  CHECK(sgd.defaults().momentum == 0.9);
  CHECK(sgd.defaults().lr == 0.5);

  // Options of the optimizer's own type are all of a group's.
  sgd.add_param_group({w()}, {.lr = 1, .momentum = 0.5});
  sgd.add_param_group({w()}, SGDOptions{.lr = 1});
  sgd.add_param_group({{w()}, {.lr = 1, .momentum = 0.5}});
  sgd.add_param_group(optim::SGD::Group{{w()}, {.lr = 1}});
  sgd.add_param_group({w()}, {0.5, 0.25});
  CHECK(sgd.options(7).momentum == 0.5);
  CHECK(sgd.options(8).momentum == 0);
  CHECK(sgd.options(9).momentum == 0.5);
  CHECK(sgd.options(10).momentum == 0);
  CHECK(sgd.options(11).momentum == 0.25);
  for (std::size_t g = 7; g < 12; ++g) CHECK(!sgd.options(g).nesterov);

  optim::SGD changed({{{w()}}, {{w()}, {.lr = 2}}}, made);
  changed.add_param_group({w()});
  CHECK(changed.lr(2) == 0.5);
  CHECK(changed.options(2).momentum == 0.9);
  optim::Adam adam(std::vector<optim::Adam::Group>{{{w()}, {.eps = 1}}});
  adam.add_param_group({w()}, {.lr = 1});
  CHECK(adam.options(1).eps == 1e-8);
  CHECK_THROWS_AS(sgd.add_param_group({a}), ValueError);
  CHECK_THROWS_AS(sgd.add_param_group({w()}, {.lr = -1}), ValueError);
}

TEST_CASE("dicts of other optimizers, of other groups, and of older versions of PyTorch") {
  const auto w = [] { return ones({2}).set_requires_grad(); };
  optim::SGD sgd({w()}, {.momentum = 0.9, .nesterov = true, .maximize = true});
  optim::Adam adam({w()}, {.amsgrad = true, .maximize = true});
  CHECK_THROWS_WITH_AS(adam.load_state_dict(sgd.state_dict()),
                       doctest::Contains("is it the state of another optimizer?"), ValueError);
  const optim::SGD two({{{w()}, {}}, {{w()}, {}}});
  const auto counts = [](int own, int others) {
    return "expected the state of an optimizer of " + std::to_string(own) +
           " groups of parameters, the dict has " + std::to_string(others);
  };
  for (const auto& [dict, count] : {std::pair{two.state_dict(), 2}, {StateDict(), 0}})
    CHECK_THROWS_WITH_AS(sgd.load_state_dict(dict), doctest::Contains(counts(1, count).c_str()),
                         ValueError);
  const auto without = [](StateDict dict, std::initializer_list<const char*> names) {
    for (const char* name : names) CHECK(dict.erase(std::string("param_groups.0.") + name));
    dict.insert_or_assign("param_groups.0.lr", tensor(0.75));
    return dict;
  };
  sgd.load_state_dict(without(sgd.state_dict(), {"maximize", "nesterov"}));
  CHECK(sgd.lr() == 0.75);
  CHECK(sgd.options().nesterov);
  CHECK(sgd.options().maximize);
  adam.load_state_dict(without(adam.state_dict(), {"maximize", "amsgrad"}));
  CHECK(adam.options().amsgrad);
  optim::RMSprop rmsprop({w()}, {.centered = true});
  rmsprop.load_state_dict(without(rmsprop.state_dict(), {"maximize", "centered"}));
  CHECK(rmsprop.options().centered);
  optim::NAdam nadam({w()}, {.momentum_decay = 0.5, .decoupled_weight_decay = true});
  nadam.load_state_dict(without(nadam.state_dict(), {"momentum_decay", "decoupled_weight_decay"}));
  CHECK(nadam.options().momentum_decay == 0.5);
}
