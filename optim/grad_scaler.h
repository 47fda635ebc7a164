// GradScaler: dynamic loss scaling (Micikevicius et al. 2018), with the meaning and the words of
// torch.amp.GradScaler.
//
//   optim::GradScaler scaler;
//   for (...) {
//     sgd.zero_grad();
//     scaler.scale(loss).backward();
//     scaler.unscale_(sgd);                               // only where gradients are looked at:
//     optim::clip_grad_norm_(sgd.parameters(), 1.0);      // to clip them
//     scaler.step(sgd);
//     scaler.update();
//   }
//
// Scale, growth tracker and overflow flags live on the device, which skips steps by itself: nothing
// here but get_scale() and load_state_dict() reads it. A whole step, from scale() to update(), can
// be captured in a graph once one has run eagerly, which makes what lives on the device (CudaError
// else); replays leave the scaler as the captured step did, between two steps. Options are
// constants of a captured step.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

namespace amp {
class Amp;
}

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< between 0 and 1
  std::int64_t growth_interval = 2000;  ///< steps in a row without overflow until the scale grows
  bool enabled = true;  ///< else scale() gives back its argument, step() steps, and that is all
  /// Else the scale stays what it is: nothing is looked for in gradients, and no step is skipped.
  bool dynamic = true;
  /// What overflows and growth leave the scale between.
  double min_scale = 0, max_scale = std::numeric_limits<double>::infinity();
};

class GradScaler {
 public:
  /// ValueError for options out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;

  /// outputs * scale, differentiable; 16-bit outputs give float32. The scale lives on the device of
  /// the first outputs; other devices get copies.
  Tensor scale(const Tensor& outputs);
  std::vector<Tensor> scale(std::span<const Tensor> outputs);

  /// Divides the gradients of the optimizer's parameters by the scale, in place and in one pass,
  /// and notes whether one is infinite or NaN. Once a step, when all gradients of the step have
  /// been accumulated (ValueError). Float16 gradients may become 0: step() alone keeps them, as do
  /// master weights (Optimizer::use_master_weights), which get the result as a float32 gradient of
  /// their own while that of the parameter stays.
  void unscale_(Optimizer& optimizer);
  /// optimizer.step() unless a gradient is infinite or NaN: then parameters, state and step counts
  /// stay as they are. Without an unscale_() before, gradients are checked, and are unscaled in
  /// float32 as the optimizer reads them; they themselves stay scaled. ValueError the second time
  /// before an update(), and where there are no gradients.
  /// Where `skip` (one float32 number on the device, or undefined) is not 0 the step is skipped
  /// too, and counts as no overflow.
  void step(Optimizer& optimizer, const Tensor& skip = {});
  /// Ends the step of all optimizers: changes the scale by what was found since the last update().
  /// ValueError where nothing was looked for.
  void update();
  /// The same with a new scale, which leaves the growth tracker as it is.
  void update(double new_scale);
  /// `new_scale`: one floating-point number; on the scale's device, or the copy may wait.
  void update(const Tensor& new_scale);

  /// Waits for the device; 1 where disabled.
  double get_scale() const;
  /// How many updates found an overflow so far, one int64 on the device, for logs; undefined
  /// before the first scale() and where disabled.
  const Tensor& overflows() const { return overflows_; }

  bool is_enabled() const { return options_.enabled; }
  bool is_dynamic() const { return options_.dynamic; }
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  std::int64_t get_growth_interval() const { return options_.growth_interval; }
  /// ValueError as the constructor's.
  void set_growth_factor(double value) { set(&GradScalerOptions::growth_factor, value); }
  void set_backoff_factor(double value) { set(&GradScalerOptions::backoff_factor, value); }
  void set_growth_interval(std::int64_t value) { set(&GradScalerOptions::growth_interval, value); }

  /// "scale", "growth_factor", "backoff_factor", "growth_interval" and "_growth_tracker", as in
  /// PyTorch's dict, and "_overflows"; empty where disabled. What is on the device is shared.
  StateDict state_dict() const;
  /// Takes over all of it, as copies. ValueError where an entry is missing (the last may be) or out
  /// of range; nothing is changed then. Does nothing where disabled.
  void load_state_dict(const StateDict& dict);

 private:
  friend class amp::Amp;  // adds up gradients of several scales

  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    const Optimizer* optimizer;
    Stage stage = Stage::ready;
    bool captured = false;          // the stage was reached by what a capture recorded
    std::vector<Tensor> found_inf;  // one a device; 0 between steps
  };

  static void check_options(GradScalerOptions options);
  template <class T>
  void set(T GradScalerOptions::*option, T value) {
    GradScalerOptions changed = options_;
    changed.*option = value;
    check_options(changed);
    options_ = changed;
  }
  PerOptimizer& state_of(const Optimizer& optimizer);
  void enter(PerOptimizer& state, Stage stage) const;
  void check_used(const char* op) const;
  void make_state(const Device& device);
  void set_scale(double scale, std::int64_t growth_tracker, std::int64_t overflows);
  void unscale(PerOptimizer& state, Optimizer& optimizer);
  void look_for_overflow(PerOptimizer& state, const Optimizer& optimizer);
  static Tensor found_inf(const PerOptimizer& state);
  /// A flag that is set where one of the two is; either may be undefined.
  static Tensor either(const Tensor& a, const Tensor& b);
  float* flag_on(PerOptimizer& state, const Device& device);
  void end_step();

  GradScalerOptions options_;
  // What the device starts from, until there is something there.
  std::int64_t init_growth_tracker_ = 0, init_overflows_ = 0;
  Tensor scale_, inv_scale_;           // float32
  Tensor growth_tracker_, overflows_;  // int64
  std::vector<PerOptimizer> optimizers_;
};

}  // namespace ferrite::optim
