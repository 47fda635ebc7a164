// core/cuda_graph.h for builds without CUDA.
#include "ferrite/core/cuda_graph.h"

#include "ferrite/core/error.h"

namespace ferrite::cuda {

struct Graph::Impl {
  Device device;
};

Graph::Graph(const Device& device, const Graph*) {
  fail<DeviceError>("graph", "expected a CUDA device, got {}; this build of Ferrite has no CUDA",
                    device);
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
void Graph::capture(const std::function<void()>&) {}
bool Graph::is_captured() const { return false; }
void Graph::replay() {}
const Device& Graph::device() const { return impl_->device; }
std::size_t Graph::num_nodes() const { return 0; }
std::size_t Graph::pool_reserved() const { return 0; }

}  // namespace ferrite::cuda
