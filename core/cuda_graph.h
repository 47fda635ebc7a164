// CUDA graphs: work of a device recorded once and run again by one launch.
//
//   cuda::Graph graph(Device("cuda:0"));
//   graph.capture([&] { y = model(x); });   // records, runs nothing
//   x.copy_(batch);
//   graph.replay();                         // reads x again, writes y again
//
// Replays use the memory that was used while capturing: tensors that exist before (inputs,
// parameters, gradients) must stay where they are, and those made in the capture lie in the graph's
// private pool and are overwritten by each replay. Code of the host runs at the capture only.
// nn::GraphedStep (nn/graphed_step.h) does all this for a training step.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ferrite/core/device.h"

namespace ferrite::cuda {

class MemoryPool;

class Graph {
 public:
  /// `share`: a graph whose pool this one is to use too, in place of one of its own. The two must
  /// then never run at the same time, and what one leaves in the pool that no tensor holds any more
  /// the other may overwrite. DeviceError unless `device` is a CUDA device.
  explicit Graph(const Device& device, const Graph* share = nullptr);
  /// The memory of the pool goes back to the device, for which the host waits for the device.
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// Runs `work` with a stream of the graph's as the device's current one, and records what it puts
  /// there and on streams that are made to wait for that. Random numbers are taken from their
  /// generators, which must live as long as the graph, by each replay and not now: a replay draws
  /// what running `work` again would. What kernels report of bad values goes to the stream that is
  /// current at the call.
  ///
  /// Once a graph (ValueError). Whatever `work` throws is passed on, and nothing is recorded then:
  /// among others CudaError, where it waits for the device, reads from it (item(), printing, copies
  /// to ordinary memory of the host) or copies from memory that is not page-locked.
  void capture(const std::function<void()>& work);
  bool is_captured() const;

  /// Queues the recorded work on the device's current stream. ValueError before capture().
  void replay();

  const Device& device() const;
  /// Kernels, copies, fills and the like that a replay runs.
  std::size_t num_nodes() const;
  /// Bytes that the private pool holds.
  std::size_t pool_reserved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::cuda
