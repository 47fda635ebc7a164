// Optimizer: groups of parameters with options of their own, and what a step needs of them.
//
// A step reads nothing from the device: the learning rate, the momentum and the step counts live
// there, so that a captured step can be replayed. Parameters without a gradient are skipped, and do
// not count the step. State has the parameter's dtype, device and layout, and follows it where it
// was moved.
//
// Of 16-bit parameters there may be float32 master weights (use_master_weights), which then are
// what steps update, with float32 state.
//
// A step that is captured into a graph keeps what it was captured with: which parameters have
// gradients, and the options but the learning rate and the momentum, which set_lr() and
// set_momentum() change between replays. State is made by the first step: run one eagerly before
// the capture (CudaError else).
//
// Who writes an optimizer derives it from TensorOptimizer (optim/tensor_optimizer.h), which says
// what it takes; docs/optimizers.md has an example.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/optim/device_scalar.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/parameter_state.h"

namespace ferrite::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;

  /// Updates every parameter that has a gradient.
  void step() { step({}, {}); }
  /// The same with gradients multiplied by `inv_scale`, and nothing changed where `found_inf` is
  /// not 0: what a loss scaler asks for. One-element float32 tensors, read on the device (copied
  /// there first where they are elsewhere); either may be undefined.
  void step(const Tensor& inv_scale, const Tensor& found_inf);
  /// Fills gradients with zeros, in place; `set_to_none` drops them instead. Those of master
  /// weights are dropped.
  void zero_grad(bool set_to_none = false);

  std::size_t num_groups() const { return groups_.size(); }
  const std::vector<Tensor>& parameters(std::size_t group) const;
  /// Those of all groups.
  std::vector<Tensor> parameters() const;
  /// Puts f(p) in the place of each parameter p, as mixed precision does with master copies.
  /// ShapeError unless the shape is that of p. The state stays, and takes the new dtype and device
  /// with the next step.
  void replace_parameters(const std::function<Tensor(const Tensor&)>& f);

  // ---- Master weights (Micikevicius et al. 2018, "Mixed Precision Training")
  /// Gives the float16 and bfloat16 parameters there are now float32 copies of their values, which
  /// steps update in their place; parameters take the rounded result. A step reads a parameter's
  /// own gradient, unless its master has one.
  void use_master_weights();
  bool has_master_weights() const;
  /// parameters(), with the master in the place of a parameter that has one.
  std::vector<Tensor> master_parameters() const;
  /// Masters take the values of the parameters, after these were changed other than by steps, as
  /// load_state_dict() of the model does. load_state_dict() here brings the masters along.
  void reset_master_weights();
  struct MasterGradient {
    Tensor from;  ///< the parameter's gradient, or a dense copy of it
    Tensor to;    ///< the master's, float32, of the same layout
  };
  /// For loss scalers: gives every master whose parameter has a gradient one of its own, with
  /// whatever is in it. The next step uses it, and drops it.
  std::vector<MasterGradient> make_master_gradients();
  void drop_master_gradients();

  // ---- Options that schedules change
  double lr(std::size_t group = 0) const;
  /// Of every group, or of one, on the device too; ValueError below 0. CudaError where that changes
  /// it while a step is captured.
  void set_lr(double lr);
  void set_lr(double lr, std::size_t group);
  /// What schedules of lr start from: the lr that a group had when its first scheduler was made.
  std::optional<double> initial_lr(std::size_t group = 0) const;
  void set_initial_lr(double lr, std::size_t group);

  /// Whether there is what schedules cycle as momentum: an option of that name, or the first of
  /// Adam's betas.
  bool has_momentum() const;
  /// ValueError where there is none, and for values that the constructor refuses; CudaError as
  /// set_lr(). A step that is captured with a momentum of 0 keeps none.
  double momentum(std::size_t group = 0) const;
  void set_momentum(double momentum);
  void set_momentum(double momentum, std::size_t group);

  // ---- Checkpoints (optim/checkpoint.cpp)
  /// Everything a later run needs to go on, as tensors, named as in PyTorch's dicts:
  /// "state.<parameter>.exp_avg", "state.<parameter>.step" (int64), "state.<parameter>.master"
  /// where there are master weights, "param_groups.<group>.lr", "initial_lr" and the other options
  /// (0-dimensional float64), "param_groups.<group>.params" (int64). Parameters are counted through
  /// all groups. State shares memory with the optimizer.
  StateDict state_dict() const;
  /// Takes over options and state, as copies. Parameters with a master take the values of those in
  /// the dict; where it has none the masters take theirs. ValueError where groups, parameters or
  /// names do not fit, ShapeError where sizes do not; nothing is changed then.
  void load_state_dict(const StateDict& dict);

  /// A parameter with a gradient, in a step.
  struct Update {
    const Tensor& parameter;
    Tensor updated;  ///< the master, or the parameter itself
    Tensor grad;     ///< of that
    ParameterState& state;
  };
  /// What the step of a group reads on a device. What a loss scaler gives may be undefined.
  struct Controls {
    Tensor lr, momentum;          ///< float64; momentum is undefined where there is none
    Tensor inv_scale, found_inf;  ///< float32
  };

 protected:
  /// `name` is a string literal.
  explicit Optimizer(const char* name) : name_(name) {}

  /// For derived classes, after the group's options are in place. ValueError where a parameter is
  /// in the optimizer already, or is no leaf that can have a gradient.
  void add_parameters(std::vector<Tensor> parameters);
  void check_not_empty() const;

  // ---- The options of a group, whatever their struct
  virtual Fields fields(std::size_t group) = 0;
  virtual void check_options(std::size_t group) = 0;
  virtual double& lr_option(std::size_t group) = 0;
  /// That momentum() is; null: none.
  virtual double* momentum_option(std::size_t group) = 0;

  // ---- Steps
  /// Those of the group's parameters that a step updates, with masters and counts on their device.
  std::vector<Update> updates(std::size_t group);
  Controls controls(std::size_t group, const Device& device, const Tensor& inv_scale,
                    const Tensor& found_inf);
  virtual void step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf) = 0;
  /// The shape of a parameter's state.
  virtual Shape state_shape(std::string_view, const Tensor& parameter) const {
    return parameter.shape();
  }

  const char* name_;

 private:
  friend class ParameterStep;

  struct Group {
    std::vector<Tensor> parameters;
    std::vector<ParameterState> states;
    DeviceScalar lr, momentum;
    std::optional<double> initial_lr = {};
  };
  using LoadedState = std::vector<std::pair<std::string, Tensor>>;

  const Group& group_at(std::size_t group) const;
  double& momentum_at(std::size_t group) const;
  void load_group(const StateDict& dict, std::size_t group, bool check_only);
  void check_state(const Tensor& parameter, std::size_t index, const LoadedState& loaded) const;
  void load_state(const Tensor& parameter, ParameterState& own, const LoadedState& loaded);

  std::vector<Group> groups_;
};

struct Betas {
  double first = 0.9, second = 0.999;

  Fields fields() { return {{"betas.0", &first, kBelowOne}, {"betas.1", &second, kBelowOne}}; }
};

/// ValueError where Nesterov momentum is asked for without momentum, or with dampening.
void check_nesterov(bool nesterov, double momentum, double dampening, const char* op);

/// Parameters with options of their own: `SGD({{backbone, {.lr = 0.01}}, {head, {.lr = 0.1}}})`.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

/// What optimizers with a struct of options share. `Options` has
/// - `static constexpr const char* kName`, the optimizer's name in messages;
/// - `double lr`, and `double momentum` or `Betas betas` where there is a momentum to be cycled;
/// - `Fields fields()`: what is checked, saved and loaded, by name;
/// and may have `void check() const`, which throws where options contradict each other, and
/// `static void check_parameter(const Tensor&)`, which throws for those it does not take.
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  OptimizerWith(std::vector<Tensor> parameters, const Options& options = {})
      : OptimizerWith(std::vector<Group>{{std::move(parameters), options}}) {}
  /// ValueError where there is no parameter in any group.
  explicit OptimizerWith(const std::vector<Group>& groups) : Optimizer(Options::kName) {
    for (const Group& g : groups) add_param_group(g.parameters, g.options);
    check_not_empty();
  }

  void add_param_group(std::vector<Tensor> parameters, const Options& options) {
    options_.push_back(options);
    try {
      OptimizerWith::check_options(options_.size() - 1);
      if constexpr (requires(const Tensor& p) { Options::check_parameter(p); })
        for (const Tensor& p : parameters) Options::check_parameter(p);
      add_parameters(std::move(parameters));
    } catch (...) {
      options_.pop_back();
      throw;
    }
  }
  /// May be changed between steps.
  Options& options(std::size_t group = 0) { return options_.at(group); }
  const Options& options(std::size_t group = 0) const { return options_.at(group); }

 private:
  Fields fields(std::size_t group) override { return options(group).fields(); }
  void check_options(std::size_t group) override {
    Options& o = options(group);
    check_fields(o.fields(), Options::kName);
    if constexpr (requires { o.check(); }) o.check();
  }
  double& lr_option(std::size_t group) override { return options(group).lr; }
  double* momentum_option(std::size_t group) override {
    Options& o = options(group);
    if constexpr (requires { o.momentum; })
      return &o.momentum;
    else if constexpr (requires { o.betas.first; })
      return &o.betas.first;
    return nullptr;
  }

  std::vector<Options> options_;
};

}  // namespace ferrite::optim
