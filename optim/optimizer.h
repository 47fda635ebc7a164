// Optimizer: groups of parameters with options of their own, updated in one launch a group.
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
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;

  /// Updates every parameter that has a gradient.
  void step();
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
  /// steps update in their place; parameters take the rounded result in the same pass over memory.
  /// A step reads a parameter's own gradient, unless its master has one.
  void use_master_weights();
  bool has_master_weights() const;
  /// parameters(), with the master in the place of a parameter that has one.
  std::vector<Tensor> master_parameters() const;
  /// Masters take the values of the parameters: for those who changed these other than by steps, as
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

 protected:
  static constexpr std::size_t kStates = 3;  // of a parameter, at most
  using StatesUsed = std::array<bool, kStates>;

  /// An option by name: how options are checkpointed, whatever their struct.
  struct Field {
    const char* name;
    std::variant<double*, bool*> value;
  };

  /// `name` is a string literal.
  Optimizer(const char* name, std::array<const char*, kStates> state_names)
      : name_(name), state_names_(state_names) {}

  /// For derived classes, after the group's options are in place. ValueError where a parameter is
  /// in the optimizer already, or is no leaf that can have a gradient.
  void add_parameters(std::vector<Tensor> parameters);
  void check_not_empty() const;

  /// The learning rate first.
  virtual std::vector<Field> fields(std::size_t group) = 0;
  virtual void check_options(std::size_t group) const = 0;
  /// That momentum() is; null: none.
  virtual double* momentum_option(std::size_t) { return nullptr; }
  virtual StatesUsed states_used(std::size_t group) const = 0;
  virtual void update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) = 0;

 private:
  struct ParameterState {
    Tensor step;
    std::array<Tensor, kStates> state;
    Tensor master;       // undefined where there is none
    Tensor master_grad;  // memory of the master's gradient, whether it has one or not
  };
  /// An option on each device, and what was last written there.
  struct OnDevices {
    const char* name;  // for messages
    std::vector<std::pair<Tensor, double>> values = {};
  };
  struct Group {
    std::vector<Tensor> parameters;
    std::vector<ParameterState> states;
    OnDevices lr{"learning rate"}, momentum{"momentum"};
    std::optional<double> initial_lr = {};
  };

  struct Batch;

  void refuse_change(const Device& device, const char* what, double value) const;
  void change(OnDevices& copies, double& option, double value) const;
  const double* on_device(OnDevices& copies, double value, const Device& device) const;
  double& momentum_at(std::size_t group) const;
  void prepare_master(std::size_t group, std::size_t i);
  void prepare_state(std::size_t group, std::size_t i, const StatesUsed& used);
  static Batch& batch_for(std::vector<Batch>& batches, const Tensor& updated, const Tensor& grad,
                          const Tensor& copy, std::size_t capacity);
  const Group& group_at(std::size_t group) const;
  std::vector<Field> fields_of(std::size_t group) const;
  void step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf);
  void load_group(const StateDict& dict, std::size_t group, std::size_t first, bool check_only);

  void take_state(std::size_t group, std::size_t i, const ParameterState& loaded);
  void take_master(std::size_t group, std::size_t i, const Tensor& loaded);

  const char* name_;
  std::array<const char*, kStates> state_names_;
  std::vector<Group> groups_;
};

/// Parameters with options of their own: `SGD({{backbone, {.lr = 0.01}}, {head, {.lr = 0.1}}})`.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

/// What optimizers with a struct of options share.
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  void add_param_group(std::vector<Tensor> parameters, const Options& options) {
    options_.push_back(options);
    try {
      check_options(options_.size() - 1);
      add_parameters(std::move(parameters));
    } catch (...) {
      options_.pop_back();
      throw;
    }
  }
  /// May be changed between steps.
  Options& options(std::size_t group = 0) { return options_.at(group); }
  const Options& options(std::size_t group = 0) const { return options_.at(group); }

 protected:
  using Optimizer::Optimizer;
  /// For constructors. ValueError where there is no parameter in any group.
  void add_groups(const std::vector<Group>& groups) {
    for (const Group& g : groups) add_param_group(g.parameters, g.options);
    check_not_empty();
  }

 private:
  std::vector<Options> options_;
};

}  // namespace ferrite::optim
