// A module on several devices (torch.nn.parallel.replicate).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel {

/// The replicas of a call to replicate(). A cheap handle: when the last one goes, so do the
/// objects. What was computed with them stays on the tape.
class Replicas {
 public:
  std::size_t size() const;
  /// Number 0 is the module itself. Of the type of the module that was replicated.
  nn::Module& operator[](std::size_t replica) const;
  template <class M>
  M& get(std::size_t replica) const {
    return static_cast<M&>((*this)[replica]);
  }

  /// What keeps the objects: for functions that refer to them and that backward may run again
  /// (autograd::CheckpointOwner), as parallel_apply() does.
  std::shared_ptr<const void> owner() const;

  struct State;
  explicit Replicas(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

struct ReplicateOptions {
  /// Gradients are summed and sent to the root in parts of so many megabytes (2^20 bytes), each
  /// when its last gradient is there, while backward goes on.
  double bucket_cap_mb = 25;
};

/// The module on each of comm.devices(), on the first of which its parameters and buffers are
/// (DeviceError naming one that is not). Replica 0 is the module itself. The others are copies of
/// the objects, with their hooks and modes, whose parameters and buffers are broadcasts of the
/// module's: values of their own, on their device. No tensor is copied twice, and none that the
/// module shares between its parts is sent twice. Differentiable: gradients of all replicas are
/// summed on the first device, while backward goes on, those of one call in the same order always,
/// and added to the module's own; a parameter that no replica used gets none; gradients of
/// gradients work. Frozen parameters are frozen in all. Under no_grad nothing is recorded. Changes
/// of the copies' buffers are lost with them. The module must derive from nn::Cloneable (Error);
/// what it holds beside the registry is copied as C++ copies it. The tape keeps the comm where a
/// shared_ptr does (as those of make_device_comm), else it must outlive backward. ValueError where
/// bucket_cap_mb is not above 0.
Replicas replicate(nn::Module& module, dp::DeviceComm& comm, const ReplicateOptions& options = {});
Replicas replicate(nn::Module& module, std::span<const Device> devices,
                   const ReplicateOptions& options = {});

}  // namespace ferrite::parallel
