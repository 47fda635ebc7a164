// A module on several devices (torch.nn.parallel.replicate).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::parallel {

/// The replicas of a call to replicate(). A cheap handle: the copies are destroyed with the last
/// one. Results computed with them stay on the tape.
class Replicas {
 public:
  std::size_t size() const;
  /// Number 0 is the module itself. All have the type of the replicated module.
  nn::Module& operator[](std::size_t replica) const;
  /// The copy of the module on a device.
  template <class M>
  M& get(std::size_t replica) const {
    return static_cast<M&>((*this)[replica]);
  }

  /// Keeps the copies alive: for functions that refer to them and that backward may rerun
  /// (autograd::CheckpointOwner), like parallel_apply().
  std::shared_ptr<const void> owner() const;

  struct State;
  explicit Replicas(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// What all copies share, for the library.
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// The options of replicate().
struct ReplicateOptions {
  /// Gradients are summed and sent to the root in buckets of this many megabytes (2^20 bytes), each
  /// once its last gradient is there, while backward continues.
  double bucket_cap_mb = 25;
};

/// Replicates the module on comm.devices(). Its parameters and buffers must be on the first of them
/// (DeviceError naming one that is not). Replica 0 is the module itself. The others are copies of
/// the objects, with their hooks and modes, whose parameters and buffers are broadcasts of the
/// module's: separate values, on their device. Shared tensors are copied and sent only once.
///
/// Differentiable: gradients of all replicas are summed on the first device during backward, those
/// of one call always in the same order, and added to the module's own. A parameter that no replica
/// used gets no gradient; gradients of gradients work. Frozen parameters are frozen in all
/// replicas. Under no_grad nothing is recorded. Changes to the copies' buffers are lost with them.
///
/// The module must derive from nn::Cloneable (Error); members that are not registered are copied by
/// the C++ copy constructor. The tape keeps the comm alive if a shared_ptr owns it (as with
/// make_device_comm); otherwise it must outlive backward. ValueError if bucket_cap_mb is not above
/// 0.
Replicas replicate(nn::Module& module, dp::DeviceComm& comm, const ReplicateOptions& options = {});
Replicas replicate(nn::Module& module, std::span<const Device> devices,
                   const ReplicateOptions& options = {});

}  // namespace ferrite::parallel
