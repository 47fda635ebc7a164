// Optimizer: groups of parameters, each with its options, and their steps.
//
// A step reads nothing from the device: the learning rate, the momentum and the step counts are
// kept there, so a captured step can be replayed. Parameters without a gradient are skipped, and
// their step is not counted. State has the parameter's dtype, device and layout, and is converted
// when those change.
//
// 16-bit parameters may have float32 master weights (use_master_weights). Steps then update the
// masters, with float32 state.
//
// A captured step keeps the set of parameters that had gradients, and all options except the
// learning rate and the momentum, which set_lr() and set_momentum() change between replays. The
// first step makes the state: run one eagerly before the capture, which throws CudaError otherwise.
//
// New optimizers derive from TensorOptimizer (optim/tensor_optimizer.h); docs/optimizers.md has an
// example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/optim/device_scalar.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/parameter_state.h"
#include "ferrite/optim/positional.h"

namespace ferrite::optim {

namespace amp {
class Amp;
}

class LRScheduler;

/// A group of an optimizer of any kind, from Optimizer::param_groups(), valid as long as that.
class AnyParamGroup {
 public:
  /// The learning rate of the group.
  double& lr;
  const std::vector<Tensor>& params() const { return *params_; }
  /// Another option of type double, under its name in state_dict(): `group["weight_decay"] = 0`,
  /// `group["betas.0"]`. IndexError names them if there is none of that name. Whole numbers and
  /// flags (`ns_steps`, `nesterov`) are members of the groups of the optimizer's own type.
  double& operator[](std::string_view name) const;

 private:
  friend class Optimizer;
  AnyParamGroup(double& lr, const std::vector<Tensor>& params, Fields options, const char* op)
      : lr(lr), params_(&params), options_(std::move(options)), op_(op) {}

  const std::vector<Tensor>* params_;
  Fields options_;
  const char* op_;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;

  /// Updates every parameter that has a gradient. ValueError for a parameter that only the
  /// optimizer holds and that gets no gradient: an assignment, `layer.weight = t`, has put another
  /// tensor in its place.
  ///
  /// ValueError, too, for gradients that carry the loss scale of an Amp: its step() unscales them.
  void step();
  /// Calls `closure`, which zeroes the gradients, computes the loss and calls backward(), with
  /// gradients recorded; then step(). Returns the loss. LBFGS calls it several times.
  virtual Tensor step(const std::function<Tensor()>& closure);
  /// The same for loss scalers: gradients are multiplied by `inv_scale`, and nothing changes if
  /// `found_inf` is not 0. Both are one-element float32 tensors that are read on the parameters'
  /// device, and copied there first if necessary; either may be undefined.
  void step(const Tensor& inv_scale, const Tensor& found_inf);
  /// For schedulers, before their steps: warns, once, if step() was never called on this object,
  /// not even by a loss scaler that skipped it.
  void warn_if_never_stepped(const char* scheduler);
  /// Drops the gradients, so that steps leave parameters alone that get none, as PyTorch 2 does;
  /// or, with `set_to_none` false, fills them with zeros, in place. Those of master weights are
  /// dropped.
  void zero_grad(bool set_to_none = true);

  std::size_t num_groups() const { return groups_.size(); }
  /// The groups, to be read and changed where the kind of optimizer is not known:
  /// `for (auto& group : optimizer.param_groups()) group.lr *= 0.1;`. SGD, Adam and so on have
  /// their own, with all options as members. A captured step sees only what set_lr() and
  /// set_momentum() change.
  std::vector<AnyParamGroup> param_groups();
  /// The tensors of the group.
  const std::vector<Tensor>& parameters(std::size_t group) const;
  /// The parameters of all groups.
  std::vector<Tensor> parameters() const;
  /// Replaces each parameter p by f(p), a leaf of a floating type (else ShapeError, as for another
  /// shape). The state stays, and takes the new dtype and device with the next step. Where there
  /// are master weights, new parameters of 16 bits have masters with their values.
  void replace_parameters(const std::function<Tensor(const Tensor&)>& f);

  // ---- Master weights (Micikevicius et al. 2018, "Mixed Precision Training")
  /// Gives the float16 and bfloat16 parameters float32 copies of their values, and, if there is one
  /// of 16 bits, those of groups that are added later. Steps update these masters, and parameters
  /// take the rounded result. A step reads the master's gradient if it has one, else the
  /// parameter's.
  void use_master_weights();
  /// Whether it updates float32 copies of 16-bit parameters.
  bool has_master_weights() const;
  /// parameters(), with masters instead of parameters that have one.
  std::vector<Tensor> master_parameters() const;
  /// Copies the values of the parameters to the masters, after the parameters were changed other
  /// than by steps, such as by the model's load_state_dict(). This class's load_state_dict() loads
  /// the masters, too.
  void reset_master_weights();
  /// A float32 gradient of a master weight.
  struct MasterGradient {
    Tensor from;  ///< the parameter's gradient, or a dense copy of it
    Tensor to;    ///< the master's, float32, of the same layout
  };
  /// For loss scalers: gives every master whose parameter has a gradient an uninitialized gradient.
  /// The next step uses and drops it.
  std::vector<MasterGradient> make_master_gradients();
  /// Frees the float32 gradients of the master weights.
  void drop_master_gradients();

  // ---- Options that schedules change
  /// The learning rate of the group.
  double lr(std::size_t group = 0) const;
  /// For every group, or for one, on the device too. ValueError below 0; CudaError if a step is
  /// being captured and the value would change.
  void set_lr(double lr);
  void set_lr(double lr, std::size_t group);
  /// The lr that a group had when its first scheduler was made, from which schedules start.
  std::optional<double> initial_lr(std::size_t group = 0) const;
  /// Sets the learning rate of a group from which schedules start.
  void set_initial_lr(double lr, std::size_t group);
  /// A number that PyTorch's schedules keep in a group, such as "max_lr": state_dict() has it, for
  /// PyTorch, and nothing else reads it.
  void set_schedule_number(const std::string& name, double value, std::size_t group);

  /// Whether there is a momentum for schedules to cycle: an option of that name, or the first beta.
  bool has_momentum() const;
  /// ValueError if there is none.
  double momentum(std::size_t group = 0) const;
  /// Sets the momentum of all groups, or of one. Captured graphs see it with their next replay; a
  /// step that was captured with a momentum of 0 stays without. ValueError if there is none, and
  /// for values out of range; 0 is allowed with Nesterov's form, too, since schedules may pass it.
  /// CudaError as in set_lr().
  void set_momentum(double momentum);
  void set_momentum(double momentum, std::size_t group);

  // ---- Checkpoints (optim/checkpoint.cpp)
  /// Everything that a later run needs to continue, as tensors, named as in PyTorch's dicts:
  /// "state.<parameter>.exp_avg", "state.<parameter>.step" (int64), "state.<parameter>.master"
  /// where there are master weights, "param_groups.<group>.lr", "initial_lr" and the other options
  /// (0-dimensional float64), "param_groups.<group>.params" (int64). Parameters are counted through
  /// all groups. State shares memory with the optimizer.
  virtual StateDict state_dict() const;
  /// Copies options and state. Parameters with a master take the values of the master in the dict;
  /// if it has none, the master takes the parameter's. ValueError if groups, parameters or names do
  /// not fit, ShapeError if sizes do not; nothing is changed then.
  virtual void load_state_dict(const StateDict& dict);

  /// A parameter with a gradient, in a step.
  struct Update {
    const Tensor& parameter;  ///< the parameter
    const Tensor& updated;    ///< the master, or the parameter itself
    Tensor grad;              ///< of that
    ParameterState& state;    ///< what the method keeps of it
  };
  /// What a group's step reads on a device. The values from a loss scaler may be undefined.
  struct Controls {
    Tensor lr, momentum;          ///< float64; momentum is undefined where there is none
    Tensor inv_scale, found_inf;  ///< float32
  };

 protected:
  /// `name` is a string literal.
  explicit Optimizer(const char* name) : name_(name) {}

  /// For derived classes, after the group's options are in place. ValueError if a parameter is in
  /// the optimizer already, or is no leaf that can have a gradient.
  void add_parameters(std::vector<Tensor> parameters);
  /// ValueError if there are no parameters.
  void check_not_empty() const;

  // ---- The options of a group, whatever their struct
  virtual Fields fields(std::size_t group) = 0;
  /// The learning rate among a group's options.
  virtual double& lr_option(std::size_t group) = 0;
  /// The value of momentum(); null if there is none.
  virtual double* momentum_option(std::size_t group) = 0;

  // ---- Steps
  /// The group's parameters that a step updates, with masters and counts on their device.
  std::vector<Update> updates(std::size_t group);
  /// The numbers on the device that a step reads.
  Controls controls(std::size_t group, const Device& device, const Tensor& inv_scale,
                    const Tensor& found_inf);
  /// Updates the parameters of one group.
  virtual void step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf) = 0;
  /// The shape of a parameter's state.
  virtual Shape state_shape(std::string_view, const Tensor& parameter) const {
    return parameter.shape();
  }

  const char* name_;
  /// Call it in a step() that does not come to step_group().
  void note_step();
  bool has_stepped_ = false;

 private:
  friend class ParameterStep;
  friend class amp::Amp;  // forgets what it knows of gradients that were zeroed, marks scaled ones
  friend class LRScheduler;  // gives back the rates that were loaded

  /// What schedules change of a group.
  struct Rates {
    double lr;
    std::optional<double> momentum;
  };
  /// A group's parameters and options.
  struct Group {
    /// The tensors of the group.
    std::vector<Tensor> parameters;
    std::vector<ParameterState> states;
    DeviceScalar lr;  ///< the learning rate of the group
    DeviceScalar momentum;
    std::optional<double> initial_lr = {};
    std::map<std::string, double> schedule_numbers = {};
    std::optional<Rates> loaded = {};  // by load_state_dict(), until the next step
  };
  using LoadedState = std::vector<std::pair<std::string, Tensor>>;

  const Group& group_at(std::size_t group) const;
  double& momentum_at(std::size_t group) const;
  bool restore_loaded_rates();
  void check_in_use(std::size_t group, std::size_t index, const Tensor& grad) const;
  void load_group(const StateDict& dict, std::size_t group, bool check_only);
  void check_state(const Tensor& parameter, std::size_t index, const LoadedState& loaded) const;
  void load_state(const Tensor& parameter, ParameterState& own, const LoadedState& loaded);

  std::deque<Group> groups_;  // members of derived classes point to the parameters of a group
  bool has_warned_ = false;
  std::uint64_t zero_grads_ = 0;       ///< how often zero_grad() was called
  std::uint64_t loads_ = 0;            ///< how often load_state_dict() was called
  bool has_scaled_gradients_ = false;  ///< gradients carry the loss scale of an Amp
};

/// The shares of the running means that Adam and its relatives keep in a step.
struct Betas {
  double first = 0.9;     ///< the share of the running mean of gradients that is kept
  double second = 0.999;  ///< the share of the running mean of squared gradients that is kept

  Fields fields() { return {{"betas.0", &first, kBelowOne}, {"betas.1", &second, kBelowOne}}; }
};

/// ValueError for Nesterov momentum without momentum, or with dampening.
void check_nesterov(bool nesterov, double momentum, double dampening, const char* op);

/// Parameters with options of their own: `SGD({{backbone, {.lr = 0.01}}, {head, {.lr = 0.1}}})`.
template <class Options>
struct ParamGroup {
  /// The tensors of the group.
  std::vector<Tensor> parameters;
  Options options = {};
};

/// What is different for a group of parameters, by name, `{.lr = 0.1}`; unset is left as it is.
struct GroupChange {
  /// Numbers without names, `{0.1, 0.9}`, are no changes but options.
  struct ByName {};
  ByName by_name = {};  ///< only there so that numbers do not fit
  std::optional<double> lr = {};
  double lr_scale = 1;  ///< the lr times this
  std::optional<double> weight_decay = {};
};

namespace detail {
/// `options` with the change. ValueError for a weight decay where the options have none.
template <class Options>
Options changed(Options options, const GroupChange& change) {
  options.lr = change.lr.value_or(options.lr) * change.lr_scale;
  if constexpr (requires { options.weight_decay; })
    options.weight_decay = change.weight_decay.value_or(options.weight_decay);
  else
    FERRITE_CHECK(!change.weight_decay, ValueError, Options::kName, "has no weight_decay");
  return options;
}
}  // namespace detail

/// Parameters, and what is different for them from an optimizer's options:
/// `SGD({{backbone}, {head, {.lr = 0.1}}}, {.lr = 0.01, .momentum = 0.9})`.
struct ChangedGroup {
  std::vector<Tensor> parameters;  ///< the tensors of the group
  GroupChange change = {};         ///< what is different from the optimizer's options
};

/// A group in an optimizer: its options, which may be changed between steps, and its parameters.
/// `sgd.param_groups()[0].lr = 0.01`. A captured step sees only what set_lr() and set_momentum()
/// change.
template <class Options>
class GroupInOptimizer : public Options {
 public:
  GroupInOptimizer(const Options& options, const std::vector<Tensor>& params)
      : Options(options), params_(&params) {}
  const std::vector<Tensor>& params() const { return *params_; }
  Options& options() { return *this; }
  const Options& options() const { return *this; }

 private:
  const std::vector<Tensor>* params_;
};

/// What optimizers with a struct of options share. `Options` has
/// - `static constexpr const char* kName`, the optimizer's name in messages;
/// - `double lr`, and `double momentum` or `Betas betas` if schedules can cycle a momentum;
/// - `Fields fields()`: what is checked, saved and loaded, by name;
/// and may have `void check() const`, which throws if options contradict each other, and
/// `static void check_parameter(const Tensor&)`, which throws for parameters it does not take.
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  /// A group's parameters and options.
  using Group = ParamGroup<Options>;

  OptimizerWith(std::vector<Tensor> parameters, const Options& options = {})
      : Optimizer(Options::kName), defaults_(options) {
    add(std::move(parameters), options);
    check_not_empty();
  }
  /// The options by position, in their order: `SGD(parameters, 0.1, 0.9)`.
  template <class... Values>
  requires detail::Positional<Options, Values...> OptimizerWith(std::vector<Tensor> parameters,
                                                                const Values&... values)
      : OptimizerWith(std::move(parameters), detail::positional<Options>(values...)) {}
  /// `Adam(parameters, 1e-3, {0.9, 0.99})`
  template <detail::Number LR, class... Rest>
  requires detail::Positional<Options, LR, Betas, Rest...> OptimizerWith(
      std::vector<Tensor> parameters, LR lr, const Betas& betas, const Rest&... rest)
      : OptimizerWith(std::move(parameters), detail::positional<Options>(lr, betas, rest...)) {}
  /// ValueError if no group has a parameter.
  explicit OptimizerWith(const std::vector<Group>& groups) : Optimizer(Options::kName) {
    for (const Group& g : groups) add(g.parameters, g.options);
    check_not_empty();
  }

  /// Groups that differ from `options` in a few things. A template, so that a list of tensors and
  /// one of groups is still the former.
  template <class = void>
  OptimizerWith(const std::vector<ChangedGroup>& groups, const Options& options)
      : Optimizer(Options::kName), defaults_(options) {
    for (const ChangedGroup& g : groups) add(g.parameters, detail::changed(options, g.change));
    check_not_empty();
  }

  /// Adds a group with defaults() and what is different for it, as in PyTorch:
  /// `sgd.add_param_group({w}, {.lr = 1})` keeps the momentum. ValueError for parameters that are
  /// in another group.
  void add_param_group(std::vector<Tensor> parameters, const GroupChange& change) {
    add(std::move(parameters), detail::changed(defaults_, change));
  }
  void add_param_group(const ChangedGroup& group) {
    add_param_group(group.parameters, group.change);
  }
  /// Adds a group with all of its options: those that are not named have the defaults of their
  /// struct. Templates, so that what can be read as a change is one.
  template <class = void>
  void add_param_group(std::vector<Tensor> parameters, const Options& options) {
    add(std::move(parameters), options);
  }
  template <class = void>
  void add_param_group(const Group& group) {
    add(group.parameters, group.options);
  }
  /// Adds a group with defaults().
  template <class = void>
  void add_param_group(std::vector<Tensor> parameters) {
    add(std::move(parameters), defaults_);
  }
  /// The options that the optimizer was made with; where each group had its own, those of the
  /// struct.
  const Options& defaults() const { return defaults_; }
  /// The groups, to be read and changed.
  std::span<GroupInOptimizer<Options>> param_groups() { return options_; }
  std::span<const GroupInOptimizer<Options>> param_groups() const { return options_; }
  /// May be changed between steps.
  Options& options(std::size_t group = 0) { return options_.at(group); }
  const Options& options(std::size_t group = 0) const { return options_.at(group); }

 private:
  Fields fields(std::size_t group) override { return options(group).fields(); }
  /// ValueError for options out of range, and for parameters as add_parameters() has it.
  void add(std::vector<Tensor> parameters, Options options) {
    check_fields(options.fields(), Options::kName);
    if constexpr (requires { options.check(); }) options.check();
    if constexpr (requires(const Tensor& p) { Options::check_parameter(p); })
      for (const Tensor& p : parameters) Options::check_parameter(p);
    add_parameters(std::move(parameters));
    options_.emplace_back(options, this->parameters(num_groups() - 1));
  }
  /// The learning rate among a group's options.
  double& lr_option(std::size_t group) override { return options(group).lr; }
  double* momentum_option(std::size_t group) override {
    Options& o = options(group);
    if constexpr (requires { o.momentum; })
      return &o.momentum;
    else if constexpr (requires { o.betas.first; })
      return &o.betas.first;
    return nullptr;
  }

  Options defaults_ = {};
  std::vector<GroupInOptimizer<Options>> options_;
};

}  // namespace ferrite::optim
