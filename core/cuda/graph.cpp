#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/memory_pool.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"

namespace ferrite::cuda {

namespace {

using detail::CudaStream;

/// A generator that a graph draws from: its state at a replay is written to `base`, where the
/// graph's kernels read it.
class GraphGenerator {
 public:
  /// `stream` must not be under capture, so that the allocator's work there does not become part of
  /// replays.
  GraphGenerator(Generator& generator, const Stream& stream)
      : generator_(generator),
        allocator_(allocator(stream.device())),
        base_(allocator_.allocate(sizeof(PhiloxState), stream)) {}
  ~GraphGenerator() { allocator_.free(base_, used_by_); }
  GraphGenerator(const GraphGenerator&) = delete;
  GraphGenerator& operator=(const GraphGenerator&) = delete;

  bool is_of(const Generator& generator) const { return &generator == &generator_; }

  PhiloxState draw(std::uint64_t blocks) {
    const std::uint64_t offset = std::exchange(next_, next_ + blocks);
    blocks_ = std::max(blocks_, next_);
    return {.seed = 0, .offset = offset, .base = static_cast<const PhiloxState*>(base_.data)};
  }
  /// Whether `state` was drawn here; if so, the next draw continues from it.
  bool seek(const PhiloxState& state) {
    if (state.base != base_.data) return false;
    next_ = state.offset;
    return true;
  }

  /// Reserves the random numbers of one replay, and queues the copy of the starting state on
  /// `stream`.
  void begin_replay(const Stream& stream) {
    if (std::ranges::find(used_by_, stream) == used_by_.end()) used_by_.push_back(stream);
    Allocator& pinned = pinned_allocator();
    const Allocator::Block staged = pinned.allocate(sizeof(PhiloxState), Stream());
    *static_cast<PhiloxState*>(staged.data) = generator_.reserve(blocks_);
    ferrite::detail::cuda::copy_bytes(stream, base_.data, stream.device(), staged.data, Device(),
                                      sizeof(PhiloxState));
    pinned.free(staged, {&stream, 1});
  }

 private:
  Generator& generator_;
  Allocator& allocator_;
  const Allocator::Block base_;
  std::vector<Stream> used_by_;          // of replays
  std::uint64_t next_ = 0, blocks_ = 0;  // a replay takes blocks_, the furthest point reached
};

/// State of a capture in progress.
struct Capture {
  const Stream outside;  // the stream on which replays are expected
  const unsigned long long id;
  std::vector<std::unique_ptr<GraphGenerator>>& generators;
  std::vector<std::shared_ptr<const void>>& kept;
  std::vector<std::function<void()>>& before_replay;
};

/// The captures in progress.
struct Captures {
  std::mutex mutex;
  std::vector<Capture*> active;
};
Captures& captures() {
  static Captures& instance = *new Captures;
  return instance;
}

/// Registers a capture for as long as it is in progress.
class ActiveCapture {
 public:
  explicit ActiveCapture(Capture& capture) : capture_(&capture) {
    std::lock_guard lock(captures().mutex);
    captures().active.push_back(capture_);
  }
  ~ActiveCapture() {
    std::lock_guard lock(captures().mutex);
    std::erase(captures().active, capture_);
  }
  ActiveCapture(const ActiveCapture&) = delete;
  ActiveCapture& operator=(const ActiveCapture&) = delete;

 private:
  Capture* const capture_;
};

class NativeGraph {
 public:
  NativeGraph() = default;
  ~NativeGraph() {
    if (graph) cudaGraphDestroy(graph);
  }
  NativeGraph(const NativeGraph&) = delete;
  NativeGraph& operator=(const NativeGraph&) = delete;

  cudaGraph_t graph = nullptr;
};

}  // namespace

struct Graph::Impl {
  Impl(const Device& device, std::shared_ptr<MemoryPool> shared)
      : device(device), pool(shared ? std::move(shared) : std::make_shared<MemoryPool>(device)) {}
  ~Impl() {
    if (!executable) return;
    try {
      const DeviceGuard guard(device);
      const detail::CaptureRelaxed relaxed;
      cudaGraphExecDestroy(executable);  // after the running replays; then `kept` is let go of
    } catch (const Error&) {             // the device is lost
    }
  }

  void record(CudaStream& side, const Stream& outside, const std::function<void()>& work);
  void instantiate(const NativeGraph& captured);
  /// Notes that the generators' states were last written or read on `stream`.
  void end_replay(const Stream& stream) {
    last = stream;
    end = stream.impl()->record(ferrite::detail::Timing::none);
  }

  const Device device;
  const std::shared_ptr<MemoryPool> pool;
  std::vector<std::unique_ptr<GraphGenerator>> generators;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<std::function<void()>> before_replay;
  cudaGraphExec_t executable = nullptr;
  std::size_t nodes = 0;
  // Where the generators' states were last in use, and when that ends; unset without generators.
  std::optional<Stream> last;
  std::shared_ptr<ferrite::detail::Mark> end;
};

Graph::Graph(const Device& device, const Graph* share) {
  FERRITE_CHECK(device.is_cuda(), DeviceError, "graph", "expected a CUDA device, got {}", device);
  FERRITE_CHECK(!share || share->device() == device, DeviceError, "graph",
                "a graph of {} cannot share the pool of one of {}", device, share->device());
  impl_ = std::make_unique<Impl>(device, share ? share->impl_->pool : nullptr);
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

const Device& Graph::device() const { return impl_->device; }
bool Graph::is_captured() const { return impl_->executable != nullptr; }
std::size_t Graph::num_nodes() const { return impl_->nodes; }
std::size_t Graph::pool_reserved() const { return impl_->pool->reserved(); }

void Graph::capture(const std::function<void()>& work) {
  FERRITE_CHECK(!is_captured(), ValueError, "graph",
                "the graph was captured already; make a new one");
  const Stream current = current_stream(impl_->device);
  FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(current), CudaError, "graph",
                "the current stream of {} is being captured already; captures do not nest",
                impl_->device);
  const DeviceGuard guard(impl_->device);
  const auto [side, turn] = detail::context(impl_->device.index()).capture_stream();
  side->report_to(detail::cuda_stream(current));
  try {
    impl_->record(*side, current, work);
    // The generators' memory was allocated there: a first replay elsewhere has to wait.
    if (!impl_->generators.empty()) impl_->end_replay(current);
  } catch (...) {
    if (impl_->executable) cudaGraphExecDestroy(std::exchange(impl_->executable, nullptr));
    impl_->generators.clear();
    impl_->kept.clear();
    impl_->before_replay.clear();
    throw;
  }
}

void Graph::Impl::record(CudaStream& side, const Stream& outside,
                         const std::function<void()>& work) {
  const Stream stream(&side);
  unsigned long long id = 0;
  // Other streams join the capture by waiting for this one. The filter is called for all
  // allocations of this device; streams that the capture does not concern have capture id 0.
  const PoolGuard pooled(*pool, [&](const Stream& s) {
    return s == stream || (id && detail::cuda_stream(s).capture_id() == id);
  });
  // Other threads go on using the device in the meantime.
  FERRITE_CUDA_CHECK(cudaStreamBeginCapture(side.native(), cudaStreamCaptureModeThreadLocal));
  NativeGraph captured;
  std::exception_ptr error;
  try {
    id = side.capture_id();
    Capture capture{outside, id, generators, kept, before_replay};
    const ActiveCapture active(capture);
    const StreamGuard use(stream);
    work();
  } catch (...) {
    error = std::current_exception();
  }
  const cudaError_t status = cudaStreamEndCapture(side.native(), &captured.graph);
  if (status != cudaSuccess) cudaGetLastError();
  if (error) std::rethrow_exception(error);
  if (status != cudaSuccess) fail_call(status, "cudaStreamEndCapture");
  instantiate(captured);
}

void Graph::Impl::instantiate(const NativeGraph& captured) {
  const detail::CaptureRelaxed relaxed;
  FERRITE_CUDA_CHECK(cudaGraphGetNodes(captured.graph, nullptr, &nodes));
  FERRITE_CUDA_CHECK(cudaGraphInstantiate(&executable, captured.graph, 0));
}

void Graph::replay() {
  FERRITE_CHECK(is_captured(), ValueError, "graph", "nothing was captured: call capture() first");
  const NvtxRange range("graph");
  const DeviceGuard guard(impl_->device);
  const Stream stream = current_stream(impl_->device);
  const profiler::OpRange profiled("graph_replay");
  for (const auto& f : impl_->before_replay) f();
  // The driver orders the replays of a graph, but not what is written before one.
  if (impl_->end && !(*impl_->last == stream)) stream.impl()->wait(impl_->end);
  for (const auto& generator : impl_->generators) generator->begin_replay(stream);
  {
    const profiler::detail::DeviceWork work(stream, "graph");
    FERRITE_CUDA_CHECK(cudaGraphLaunch(impl_->executable, native_stream(stream)));
  }
  if (!impl_->generators.empty()) impl_->end_replay(stream);
}

}  // namespace ferrite::cuda

// ---- core/cuda_backend.h

namespace ferrite::detail::cuda {

void captured_seek(const Stream& stream, Generator& generator, const PhiloxState& state) {
  using namespace ferrite::cuda;
  const unsigned long long id = ferrite::cuda::detail::cuda_stream(stream).capture_id();
  std::lock_guard lock(captures().mutex);
  for (Capture* capture : captures().active)
    for (const auto& known : capture->generators)
      if (capture->id == id && known->is_of(generator) && known->seek(state)) return;
  fail<CudaError>("random",
                  "what was captured into a graph is to draw again the random numbers of work "
                  "outside of it, or the other way round; have both in one capture (forward as "
                  "well as backward)");
}

std::optional<PhiloxState> captured_draw(const Stream& stream, Generator& generator,
                                         std::uint64_t blocks) {
  using namespace ferrite::cuda;
  const unsigned long long id = ferrite::cuda::detail::cuda_stream(stream).capture_id();
  if (id == 0) return {};
  std::lock_guard lock(captures().mutex);
  for (Capture* capture : captures().active) {
    if (capture->id != id) continue;
    auto& known = capture->generators;
    auto found = std::ranges::find_if(known, [&](const auto& g) { return g->is_of(generator); });
    if (found == known.end()) {
      known.push_back(std::make_unique<GraphGenerator>(generator, capture->outside));
      found = known.end() - 1;
    }
    return (*found)->draw(blocks);
  }
  fail<CudaError>(
      "random",
      "the stream is being captured by calls of the CUDA runtime, and all replays would "
      "draw the same numbers; capture with cuda::Graph");
}

void captured_keep(const Stream& stream, std::shared_ptr<const void> used) {
  using namespace ferrite::cuda;
  const unsigned long long id = ferrite::cuda::detail::cuda_stream(stream).capture_id();
  std::lock_guard lock(captures().mutex);
  for (Capture* capture : captures().active)
    if (capture->id == id && std::ranges::find(capture->kept, used) == capture->kept.end())
      capture->kept.push_back(std::move(used));
}

void captured_before_replay(const Stream& stream, std::function<void()> f) {
  using namespace ferrite::cuda;
  const unsigned long long id = ferrite::cuda::detail::cuda_stream(stream).capture_id();
  std::lock_guard lock(captures().mutex);
  for (Capture* capture : captures().active)
    if (capture->id == id) capture->before_replay.push_back(std::move(f));
}

}  // namespace ferrite::detail::cuda
