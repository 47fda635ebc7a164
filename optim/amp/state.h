// The state of an Amp: a scaler per loss, and the gradients of each optimizer since its last step.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/tensor.h"
#include "ferrite/optim/amp/amp.h"
#include "ferrite/optim/grad_scaler.h"

namespace ferrite::optim::amp {

struct Amp::State : std::enable_shared_from_this<State> {
  using Stage = GradScaler::Stage;

  /// Unscaled gradients of one parameter. Their memory is kept for later steps, because a graph may
  /// have captured it.
  struct Aside {
    Tensor grad;           // undefined before the first
    bool is_used = false;  // in this step
  };
  /// The gradients of an optimizer. They may carry the scale of one loss; those of losses before
  /// were unscaled and put aside. What the scalers have seen of them is in their own records.
  struct PerOptimizer {
    Optimizer* optimizer;
    std::optional<std::size_t> pending = {};  // the loss whose scale gradients carry
    bool unscaled = false;                    // pending or not, they carry none any more
    bool has_aside = false;
    std::vector<Aside> aside = {};  // one a parameter
    std::uint64_t zero_grads = 0;   // the optimizer's count when its gradients were last forgotten
    std::size_t hooked = 0;         // parameters, of the first groups, that have a hook
  };

  State(const Properties& properties, const Options& options);
  ~State();

  void add(Optimizer& optimizer);
  PerOptimizer& find(const Optimizer& optimizer, const char* op);

  GradScaler& scaler(std::size_t loss_id, const char* op);
  Tensor scale(const Tensor& loss, std::size_t loss_id);
  /// Called when backward() of a scaled loss begins; `runs`: whether its pass is the running one.
  void begin_backward(std::size_t loss_id, bool runs);
  /// Called for each parameter when its gradient is complete.
  void gradient_arrived(std::size_t optimizer);

  void unscale(PerOptimizer& o);
  bool has_gradients(const PerOptimizer& o) const { return o.pending || o.has_aside; }
  void step(PerOptimizer& o, const Tensor& skip);
  void update();
  void forget(PerOptimizer& o);
  /// Forgets the gradients of optimizers whose own zero_grad() was called.
  void forget_zeroed();

  const Properties properties;
  /// Whether there are scales or masters' gradients to take care of.
  const bool scales;
  std::vector<GradScaler> scalers;
  std::vector<std::int64_t> reported;  // overflows, by message
  std::vector<PerOptimizer> optimizers;

 private:
  void hook_parameters(std::size_t optimizer);
  void note_end();
  GradScaler& ready_scaler(std::size_t loss_id, const Device& device);
  void unscale_with(PerOptimizer& o, std::size_t loss_id);
  void for_each_unscaled(const PerOptimizer& o, auto&& f);
  void put_aside(PerOptimizer& o);
  void add_aside(PerOptimizer& o);
  bool has_stepped(const GradScaler& scaler) const;

  std::mutex mutex_;  // gradients may arrive on several devices at once
  std::size_t current_loss_ = 0;
  bool in_scaled_pass_ = false;  // gradients that arrive are those of a scaled loss
  bool end_is_noted_ = false;    // of that pass
  std::vector<TensorHook> hooks_;
};

}  // namespace ferrite::optim::amp
