// GradScaler: dynamic loss scaling (Micikevicius et al. 2018), as torch.amp.GradScaler.
//
//   optim::GradScaler scaler;
//   for (...) {
//     sgd.zero_grad();
//     scaler.scale(loss).backward();
//     scaler.unscale_(sgd);                               // only to use the gradients,
//     optim::clip_grad_norm_(sgd.parameters(), 1.0);      // such as for clipping
//     scaler.step(sgd);
//     scaler.update();
//   }
//
// Scale, growth tracker and overflow flags are kept on the device, which skips steps on its own;
// only get_scale() and load_state_dict() read them. A whole step, from scale() to update(), can be
// captured in a graph after one has run eagerly, which makes the tensors on the device (CudaError
// otherwise). Replays leave the scaler between two steps, as the captured step did. Options are
// constants of a captured step.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

namespace amp {
class Amp;
}

struct GradScalerOptions {
  /// The scale at the start.
  double init_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< between 0 and 1
  std::int64_t growth_interval = 2000;  ///< steps in a row without overflow until the scale grows
  bool enabled = true;  ///< if not, scale() returns its argument and step() only steps
  /// If not, the scale stays, gradients are not checked, and no step is skipped.
  bool dynamic = true;
  /// Bounds of what update() makes of the scale; init_scale and update(new_scale) may be outside.
  double min_scale = 0, max_scale = std::numeric_limits<double>::infinity();
};

/// Scales the loss, so that gradients do not vanish in float16; skips steps whose gradients
/// overflow, and adapts the scale.
///
///   scaler.scale(loss).backward();
///   scaler.step(sgd);
///   scaler.update();
class GradScaler {
 public:
  /// ValueError for options out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;

  /// outputs * scale, differentiable; float32 for 16-bit outputs. The scale is kept on the device
  /// of the first outputs; other devices get copies.
  Tensor scale(const Tensor& outputs);
  std::vector<Tensor> scale(std::span<const Tensor> outputs);

  /// Divides the gradients of the optimizer's parameters by the scale, in place and in one pass,
  /// and notes whether one is infinite or NaN. Once per step (ValueError), after all gradients of
  /// the step have been accumulated. Float16 gradients may become 0 by it. They do not if step()
  /// unscales, or with master weights (Optimizer::use_master_weights): the result is then a float32
  /// gradient of the master, and the parameter's gradient stays.
  void unscale_(Optimizer& optimizer);
  /// optimizer.step(), unless a gradient is infinite or NaN: parameters, state and step counts then
  /// stay as they are. Without an unscale_() before, gradients are checked, and the optimizer
  /// unscales them in float32 while it reads them; they stay scaled. ValueError the second time
  /// before an update() and, with a dynamic scale, without gradients.
  /// If `skip` (one float32 number on the device, or undefined) is not 0, the step is skipped too,
  /// which does not count as an overflow.
  void step(Optimizer& optimizer, const Tensor& skip = {});
  /// Ends the step of all optimizers: changes the scale by what was found since the last update().
  /// ValueError if no gradients were checked since then, with a dynamic scale.
  void update();
  /// The same with a new scale, which leaves the growth tracker as it is.
  void update(double new_scale);
  /// `new_scale`: one floating-point number; on the scale's device, or the copy may wait.
  void update(const Tensor& new_scale);

  /// Calls `exchange` on each overflow flag (one float32 number on its device, not 0 after an
  /// overflow) once gradients were looked at: it may combine the flags of processes that hold parts
  /// of one model (parallel::share_overflows()).
  void set_flag_exchange(std::function<void(const Tensor& flag)> exchange) {
    exchange_ = std::move(exchange);
  }

  /// Waits for the device; 1 if disabled.
  double get_scale() const;
  /// How many updates found an overflow so far, one int64 on the device, for logs; undefined
  /// before the first scale() and if disabled.
  const Tensor& overflows() const { return overflows_; }

  bool is_enabled() const { return options_.enabled; }
  bool is_dynamic() const { return options_.dynamic; }
  /// The factor of the scale after growth_interval steps without an overflow; 2 by default.
  double get_growth_factor() const { return options_.growth_factor; }
  /// The factor of the scale after an overflow; 0.5 by default.
  double get_backoff_factor() const { return options_.backoff_factor; }
  /// The number of steps without an overflow after which the scale grows; 2000 by default.
  std::int64_t get_growth_interval() const { return options_.growth_interval; }
  /// ValueError as the constructor's.
  void set_growth_factor(double value) { set(&GradScalerOptions::growth_factor, value); }
  /// Sets the factor of the scale after an overflow.
  void set_backoff_factor(double value) { set(&GradScalerOptions::backoff_factor, value); }
  /// Sets the number of steps without an overflow after which the scale grows.
  void set_growth_interval(std::int64_t value) { set(&GradScalerOptions::growth_interval, value); }

  /// "scale", "growth_factor", "backoff_factor", "growth_interval" and "_growth_tracker", as in
  /// PyTorch's dict, and "_overflows"; empty if disabled. Copies, on the device, of what they are
  /// now: later steps do not change them.
  StateDict state_dict() const;
  /// Copies all of it. ValueError if an entry is missing (the last may be) or out of range; nothing
  /// is changed then. Does nothing if disabled.
  void load_state_dict(const StateDict& dict);

 private:
  friend class amp::Amp;  // adds up gradients of several scales

  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    const Optimizer* optimizer;
    Stage stage = Stage::ready;
    bool captured = false;          // the stage was reached by what a capture recorded
    bool looking = false;           // for overflows, for a stage that was not reached yet
    std::vector<Tensor> found_inf;  // one a device; 0 between steps
  };
  /// What load_state_dict() reads.
  struct Loaded {
    GradScalerOptions options;
    std::int64_t growth_tracker, overflows;
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
  static void begin_to_look(PerOptimizer& state);
  void check_used(const char* op) const;
  void make_state(const Device& device);
  Loaded loaded_from(const StateDict& dict) const;
  void load(const Loaded& loaded);
  void set_scale(double scale, std::int64_t growth_tracker, std::int64_t overflows);
  void unscale(PerOptimizer& state, Optimizer& optimizer);
  void look_for_overflow(PerOptimizer& state, const Optimizer& optimizer);
  static Tensor found_inf(const PerOptimizer& state);
  /// A flag that is set if one of the two is; either may be undefined.
  static Tensor either(const Tensor& a, const Tensor& b);
  float* flag_on(PerOptimizer& state, const Device& device);
  void exchange_flags(const PerOptimizer& state) const;
  void end_step();

  GradScalerOptions options_;
  // What the device starts from, until there is something there.
  std::int64_t init_growth_tracker_ = 0, init_overflows_ = 0;
  Tensor scale_, inv_scale_;           // float32
  Tensor growth_tracker_, overflows_;  // int64
  std::vector<PerOptimizer> optimizers_;
  std::function<void(const Tensor&)> exchange_;
};

}  // namespace ferrite::optim
