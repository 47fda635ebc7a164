// Graphs, and the capture of streams into them.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "ferrite/tests/emulator/src/stream.h"

struct CUgraphNode_st {
  emulator::OperationPtr operation;
  std::vector<CUgraphNode_st*> after;
  std::size_t rank = 0;  // in its graph; nodes come after all that they depend on
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;

  CUgraphNode_st* add(emulator::OperationPtr operation, std::vector<CUgraphNode_st*> after);
};

namespace emulator {

/// A capture in progress, from cudaStreamBeginCapture on one stream to cudaStreamEndCapture.
class Capture {
 public:
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  std::vector<StreamPtr> streams;  // the participating streams, the origin first
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  bool invalid = false;
  bool over = false;
};

/// Captures that have begun and not ended.
std::vector<std::shared_ptr<Capture>>& captures();

/// Whether an operation may be put on the stream: not if its capture has failed, nor on the legacy
/// default stream while a stream that it would have to wait for is capturing.
cudaError_t check_use(const CUstream_st& stream);

/// Adds the operation to the stream's capture.
void capture_operation(CUstream_st& stream, OperationPtr operation);

/// cudaStreamWaitEvent if the stream is capturing or the event was captured.
cudaError_t capture_wait(const StreamPtr& stream, const CUevent_st& event);

/// For calls that a captured graph would not contain (cudaMalloc): an error while a capture forbids
/// them, which makes the capture fail.
cudaError_t check_unsafe();

/// For calls that wait for the stream, or query it: a capture of it fails.
cudaError_t check_wait(const CUstream_st& stream);
/// The same for all streams of a device.
cudaError_t check_wait(int device);

/// Discards captures of streams of the device.
void discard_captures(int device);

}  // namespace emulator
