// Optimizers and schedulers by PyTorch's names: a case is a few steps.
#include <set>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/adaptive.h"
#include "ferrite/optim/lbfgs.h"
#include "ferrite/optim/muon.h"
#include "ferrite/optim/rmsprop.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/differential/options.h"

namespace ferrite::differential {

template <>
FERRITE_OPTIONS(optim::CosineAnnealingWarmRestartsOptions, T_0, T_mult, eta_min);
template <>
FERRITE_OPTIONS(optim::OneCycleLROptions, max_lr, total_steps, epochs, steps_per_epoch, pct_start,
                anneal_strategy, cycle_momentum, base_momentum, max_momentum, div_factor,
                final_div_factor, three_phase);
template <>
FERRITE_OPTIONS(optim::CyclicLROptions, base_lr, max_lr, step_size_up, step_size_down, mode, gamma,
                cycle_momentum, base_momentum, max_momentum);
template <>
FERRITE_OPTIONS(optim::SWALROptions, swa_lr, anneal_epochs, anneal_strategy);
template <>
FERRITE_OPTIONS(optim::ReduceLROnPlateauOptions, mode, factor, patience, threshold, threshold_mode,
                cooldown, min_lr, eps);

namespace {

/// Sets the fields of those names, and takes them. Words are taken by their own names.
void take_numbers(const optim::Fields& fields, Json& a) {
  for (const optim::Field& field : fields)
    std::visit(
        [&]<class V>(const V& value) {
          if constexpr (!std::is_same_v<V, optim::Word>) *value = take(a, field.name, *value);
        },
        field.value);
}

// ---- Schedulers

using Scheduler = std::shared_ptr<optim::LRScheduler>;
using MakeScheduler = std::function<Scheduler(optim::Optimizer&, Json&)>;

Scheduler make_scheduler(optim::Optimizer& optimizer, Json a);

/// With options that are numbers.
template <class Options>
Scheduler formula(optim::Optimizer& optimizer, Json& a) {
  Options o{};
  take_numbers(o.fields(), a);
  return std::make_shared<optim::FormulaLR<Options>>(optimizer, o);
}
template <class S, class Options>
Scheduler with_options(optim::Optimizer& optimizer, Json& a) {
  return std::make_shared<S>(optimizer, options<Options>(a));
}
/// Of the function factor^epoch, or factor.
template <bool kFromLast>
Scheduler lambda(optim::Optimizer& optimizer, Json& a) {
  const auto factor = take<double>(a, "factor");
  return std::make_shared<optim::LambdaLROf<kFromLast>>(optimizer, [factor](std::int64_t epoch) {
    return kFromLast ? factor : std::pow(factor, static_cast<double>(epoch));
  });
}

optim::LRSchedulers members(optim::Optimizer& optimizer, Json& a) {
  optim::LRSchedulers made;
  for (const Json& member : a["schedulers"]) made.push_back(make_scheduler(optimizer, member));
  a.erase("schedulers");
  return made;
}

const std::map<std::string, MakeScheduler>& schedulers() {
  using optim::Optimizer;
  static const std::map<std::string, MakeScheduler> table = {
      {"ConstantLR", formula<optim::ConstantLROptions>},
      {"LinearLR", formula<optim::LinearLROptions>},
      {"StepLR", formula<optim::StepLROptions>},
      {"MultiStepLR", formula<optim::MultiStepLROptions>},
      {"ExponentialLR", formula<optim::ExponentialLROptions>},
      {"PolynomialLR", formula<optim::PolynomialLROptions>},
      {"CosineAnnealingLR", formula<optim::CosineAnnealingLROptions>},
      {"LambdaLR", lambda<false>},
      {"MultiplicativeLR", lambda<true>},
      {"CosineAnnealingWarmRestarts",
       with_options<optim::CosineAnnealingWarmRestarts, optim::CosineAnnealingWarmRestartsOptions>},
      {"OneCycleLR", with_options<optim::OneCycleLR, optim::OneCycleLROptions>},
      {"CyclicLR", with_options<optim::CyclicLR, optim::CyclicLROptions>},
      {"SWALR", with_options<optim::SWALR, optim::SWALROptions>},
      {"ReduceLROnPlateau",
       with_options<optim::ReduceLROnPlateau, optim::ReduceLROnPlateauOptions>},
      {"SequentialLR",
       [](Optimizer& o, Json& a) -> Scheduler {
         const auto milestones = take<std::vector<std::int64_t>>(a, "milestones");
         return std::make_shared<optim::SequentialLR>(o, members(o, a), milestones);
       }},
      {"ChainedScheduler",
       [](Optimizer& o, Json& a) -> Scheduler {
         return std::make_shared<optim::ChainedScheduler>(members(o, a));
       }},
  };
  return table;
}

Scheduler make_scheduler(optim::Optimizer& optimizer, Json a) {
  const auto name = take<std::string>(a, "name");
  const Scheduler made = schedulers().at(name)(optimizer, a);
  check_all_taken(a);
  return made;
}

// ---- Steps

/// What LBFGS minimizes: the sum of (p^2 - c)^2 over all parameters p and the case's inputs c.
Tensor distance(const Tensors& parameters, const Tensors& centers) {
  Tensor loss;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor part = (parameters[i] * parameters[i] - centers[i]).square().sum();
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

/// Whether PyTorch keeps this part of the state as a number, in a tensor of one dtype or another or
/// in none.
bool is_number(std::string_view name) {
  static const std::set<std::string_view> numbers = {
      "step", "mu_product", "mu", "eta", "n_iter", "func_evals", "t", "H_diag", "prev_loss", "ro"};
  const std::size_t second = name.find('.') + 1;
  return numbers.contains(name.substr(second, name.find('.', second) - second));
}

/// Parameters after the steps, rates and momenta after each, and then the state by name: first the
/// names, as bytes. Steps are counted by all optimizers of Ferrite, and by some of PyTorch's.
Tensors results(const optim::Optimizer& optimizer, const Tensors& parameters,
                const std::vector<double>& rates, bool counts) {
  Tensors out;
  for (const Tensor& p : parameters) out.push_back(p.detach());
  out.push_back(from_vector(rates, {static_cast<std::int64_t>(rates.size())}));
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : optimizer.state_dict())
    if (name.starts_with("state.") && (counts || !name.ends_with(".step")))
      state[name.substr(6)] = tensor;
  std::string names;
  for (const auto& [name, tensor] : state) names += name + "\n";
  const std::vector<std::uint8_t> bytes(names.begin(), names.end());
  out.push_back(from_vector(bytes, {static_cast<std::int64_t>(bytes.size())}));
  for (const auto& [name, tensor] : state)
    out.push_back(is_number(name) ? tensor.to(kFloat32).reshape({}) : tensor);
  return out;
}

/// One step with the gradients of these inputs, of which null ones are undefined.
void take_step(optim::Optimizer& optimizer, const Tensors& parameters, const Tensors& in,
               const Json& step, bool maximize) {
  Tensors given;
  for (const Json& at : step)
    given.push_back(at.is_null() ? Tensor() : in.at(at.get<std::size_t>()));
  if (dynamic_cast<optim::LBFGS*>(&optimizer)) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor distant = distance(parameters, given), loss = maximize ? neg(distant) : distant;
      loss.backward();
      return loss;
    });
  } else {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(given[i]);
    optimizer.step();
  }
}

Tensors run_steps(optim::Optimizer& optimizer, const Tensors& parameters, const Tensors& in,
                  const Json& args) {
  const Json& a = args["scheduler"];
  const Scheduler scheduler = a.is_null() ? nullptr : make_scheduler(optimizer, a);
  const auto plateau = dynamic_cast<optim::ReduceLROnPlateau*>(scheduler.get());
  std::vector<double> rates;
  for (std::size_t step = 0; step < args["steps"].size(); ++step) {
    take_step(optimizer, parameters, in, args["steps"][step],
              args["groups"][0].value("maximize", false));
    if (plateau)
      plateau->step(args["metrics"][step].get<double>());
    else if (scheduler)
      scheduler->step();
    for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
      rates.push_back(optimizer.lr(group));
      if (optimizer.has_momentum()) rates.push_back(optimizer.momentum(group));
    }
  }
  return results(optimizer, parameters, rates, args["counts"]);
}

/// Inputs: the parameters of the groups in order, then gradients.
template <class O, class Options>
Op optimizer_op() {
  return [](const Tensors& in, const Json& args) {
    Tensors parameters;
    std::vector<optim::ParamGroup<Options>> groups;
    for (Json group : args["groups"]) {
      Options o;
      Tensors own;
      for (auto n = take<std::int64_t>(group, "params"); n > 0; --n) {
        own.push_back(in.at(parameters.size()).detach().clone().set_requires_grad());
        parameters.push_back(own.back());
      }
      take_numbers(o.fields(), group);
      if constexpr (requires { o.line_search_fn; })
        o.line_search_fn = take(group, "line_search_fn", o.line_search_fn);
      if constexpr (requires { o.adjust_lr_fn; })
        o.adjust_lr_fn = take(group, "adjust_lr_fn", o.adjust_lr_fn);
      check_all_taken(group);
      groups.push_back({own, o});
    }
    O optimizer(groups);
    return run_steps(optimizer, parameters, in, args);
  };
}

}  // namespace

void add_optimizers(Table& t) {
  t["optim.SGD"] = optimizer_op<optim::SGD, optim::SGDOptions>();
  t["optim.Adam"] = optimizer_op<optim::Adam, optim::AdamOptions>();
  t["optim.AdamW"] = optimizer_op<optim::AdamW, optim::AdamWOptions>();
  t["optim.Adagrad"] = optimizer_op<optim::Adagrad, optim::AdagradOptions>();
  t["optim.Adadelta"] = optimizer_op<optim::Adadelta, optim::AdadeltaOptions>();
  t["optim.Adamax"] = optimizer_op<optim::Adamax, optim::AdamaxOptions>();
  t["optim.NAdam"] = optimizer_op<optim::NAdam, optim::NAdamOptions>();
  t["optim.RAdam"] = optimizer_op<optim::RAdam, optim::RAdamOptions>();
  t["optim.RMSprop"] = optimizer_op<optim::RMSprop, optim::RMSpropOptions>();
  t["optim.ASGD"] = optimizer_op<optim::ASGD, optim::ASGDOptions>();
  t["optim.Rprop"] = optimizer_op<optim::Rprop, optim::RpropOptions>();
  t["optim.LBFGS"] = optimizer_op<optim::LBFGS, optim::LBFGSOptions>();
  t["optim.Muon"] = optimizer_op<optim::Muon, optim::MuonOptions>();
}

}  // namespace ferrite::differential
