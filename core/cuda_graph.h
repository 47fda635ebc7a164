// CUDA graphs: device work recorded once and replayed by one launch.
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

/// Work that was recorded once, and that one launch repeats.
class Graph {
 public:
  /// `share`: use the pool of this graph instead of a new one. The two graphs must then never run
  /// at the same time, and each may overwrite what the other leaves in the pool without a tensor
  /// that holds it. DeviceError unless `device` is a CUDA device.
  explicit Graph(const Device& device, const Graph* share = nullptr);
  /// Returns the pool's memory to the device, which makes the host wait for the device, and lets go
  /// of the process groups whose operations it captured, which it keeps until then.
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// Runs `work` with a capture stream as the device's current stream, and records what it puts
  /// there and on streams that wait for it. Random numbers are drawn at each replay instead of now,
  /// from generators that must live as long as the graph: a replay draws what running `work` again
  /// would. Errors that kernels report go to the stream that is current at the call.
  ///
  /// A graph captures once (ValueError). Exceptions of `work` are passed on, and nothing is
  /// recorded: among others CudaError if it waits for the device, reads from it (item(), printing,
  /// copies to ordinary host memory) or copies from memory that is not page-locked.
  void capture(const std::function<void()>& work);
  /// Whether there is a recording.
  bool is_captured() const;

  /// Queues the recorded work on the device's current stream. ValueError before capture().
  void replay();

  const Device& device() const;
  /// Number of kernels, copies, fills and other nodes that a replay runs.
  std::size_t num_nodes() const;
  /// Bytes held by the private pool.
  std::size_t pool_reserved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::cuda
