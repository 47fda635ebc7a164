#include <algorithm>

#include "ferrite/tests/emulator/src/graph.h"

CUgraphNode_st* CUgraph_st::add(emulator::OperationPtr operation,
                                std::vector<CUgraphNode_st*> after) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->operation = std::move(operation);
  node->after = std::move(after);
  node->rank = nodes.size();
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

namespace emulator {

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

using Nodes = std::vector<CUgraphNode_st*>;

void join(Nodes& tail, const Nodes& more) {
  for (CUgraphNode_st* node : more)
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
}

/// Marks the nodes that precede those of `tail`, and these.
void mark_ancestors(const Nodes& tail, std::vector<bool>& marked) {
  Nodes stack = tail;
  while (!stack.empty()) {
    const CUgraphNode_st* const node = stack.back();
    stack.pop_back();
    if (marked[node->rank]) continue;
    marked[node->rank] = true;
    stack.insert(stack.end(), node->after.begin(), node->after.end());
  }
}

bool all_joined(const Capture& capture) {
  std::vector<bool> joined(capture.graph->nodes.size());
  mark_ancestors(capture.origin->capture_tail, joined);
  for (const StreamPtr& stream : capture.streams)
    for (const CUgraphNode_st* node : stream->capture_tail)
      if (!joined[node->rank]) return false;
  return true;
}

void leave(Capture& capture) {
  capture.over = true;
  for (const StreamPtr& stream : capture.streams) {
    stream->capture.reset();
    stream->capture_tail.clear();
  }
  capture.streams.clear();
  std::erase_if(captures(), [&](const auto& c) { return c.get() == &capture; });
}

bool forbids(const Capture& capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id())
    return capture.mode != cudaStreamCaptureModeRelaxed;
  return thread_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

}  // namespace

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto& all = *new std::vector<std::shared_ptr<Capture>>;
  return all;
}

cudaError_t check_use(const CUstream_st& stream) {
  if (captures().empty()) return cudaSuccess;
  if (stream.capture)
    return stream.capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (!stream.is_default) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures())
    for (const StreamPtr& other : capture->streams)
      if (other->device == stream.device && other->blocking()) {
        capture->invalid = true;
        error = cudaErrorStreamCaptureImplicit;
      }
  return error;
}

void capture_operation(CUstream_st& stream, OperationPtr operation) {
  CUgraphNode_st* const node =
      stream.capture->graph->add(std::move(operation), std::move(stream.capture_tail));
  stream.capture_tail = {node};
}

cudaError_t capture_wait(const StreamPtr& stream, const CUevent_st& event) {
  if (!event.capture) {
    if (!event.record) return cudaSuccess;
    stream->capture->invalid = true;  // it waits for something that is not part of the graph
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture->over) {
    if (stream->capture) stream->capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (!stream->capture) {
    if (stream->is_default) {
      event.capture->invalid = true;
      return cudaErrorStreamCaptureImplicit;
    }
    stream->capture = event.capture;
    event.capture->streams.push_back(stream);
  }
  join(stream->capture_tail, event.capture_tail);
  return cudaSuccess;
}

cudaError_t check_unsafe() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures())
    if (forbids(*capture)) {
      capture->invalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

cudaError_t check_wait(const CUstream_st& stream) {
  if (stream.capture) {
    stream.capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return stream.is_default ? check_use(stream) : cudaSuccess;
}

cudaError_t check_wait(int device) {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : captures())
    for (const StreamPtr& stream : capture->streams)
      if (stream->device == device) {
        capture->invalid = true;
        error = cudaErrorStreamCaptureUnsupported;
      }
  return error;
}

void discard_captures(int device) {
  const auto all = captures();
  for (const auto& capture : all)
    if (capture->origin->device == device) leave(*capture);
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture", [&](HeldLock&) {
    static unsigned long long ids = 0;
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    if (stream->is_default) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    auto capture = std::make_shared<Capture>();
    capture->id = ++ids;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream.get();
    capture->streams = {stream};
    stream->capture = capture;
    captures().push_back(std::move(capture));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", [&](HeldLock&) {
    if (!graph) return cudaErrorInvalidValue;
    *graph = nullptr;
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != stream.get()) {
      capture->invalid = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    const bool joined = all_joined(*capture);
    leave(*capture);
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = capture->graph.release();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!status) return cudaErrorInvalidValue;
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return stream->is_default ? check_use(*stream) : cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (const cudaError_t error = cudaStreamIsCapturing(handle, status); error != cudaSuccess)
    return error;
  return api("cudaStreamGetCaptureInfo", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (edges) *edges = nullptr;
    if (!stream->capture || stream->capture->invalid) return cudaSuccess;
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph.get();
    if (dependencies) *dependencies = stream->capture_tail.data();
    if (count) *count = stream->capture_tail.size();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  return api("cudaStreamUpdateCaptureDependencies", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!stream->capture) return cudaErrorIllegalState;
    if ((count && !nodes) || flags > cudaStreamSetCaptureDependencies) return cudaErrorInvalidValue;
    if (flags == cudaStreamSetCaptureDependencies) stream->capture_tail.clear();
    join(stream->capture_tail, Nodes(nodes, nodes + count));
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (!mode || *mode > cudaStreamCaptureModeRelaxed) return remember(cudaErrorInvalidValue);
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

}  // extern "C"
