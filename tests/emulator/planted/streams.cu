// Streams that must wait for each other.
#include "ferrite/tests/emulator/planted/planted.h"

using namespace planted;

namespace {

__global__ void fill(float* x, float value) { x[threadIdx.x] = value; }
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }

class Streams {
 public:
  Streams() {
    for (cudaStream_t& s : streams_) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    check(cudaEventCreate(&event_));
  }
  ~Streams() {
    for (cudaStream_t s : streams_) cudaStreamDestroy(s);
    cudaEventDestroy(event_);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t operator[](int i) const { return streams_[i]; }
  void wait() const {
    check(cudaEventRecord(event_, streams_[0]));
    check(cudaStreamWaitEvent(streams_[1], event_, 0));
  }

 private:
  cudaStream_t streams_[2];
  cudaEvent_t event_;
};

template <bool bug>
bool run_two_kernels() {
  const Streams streams;
  const Array<float> x(32), y(32);
  launch({1, 32, 0, streams[0]}, "fill", fill, x.get(), 3.0f);
  if (!bug) streams.wait();
  launch({1, 32, 0, streams[1]}, "twice", twice, x.get(), y.get());
  check(cudaStreamSynchronize(streams[1]));
  const bool right = y.value() == 6;
  check(cudaDeviceSynchronize());
  return right;
}

/// The kernel's input is copied in another stream.
template <bool bug>
bool run_copy_and_kernel() {
  const Streams streams;
  const Array<float> x(32), y(32);
  float* host;
  check(cudaMallocHost(&host, 32 * sizeof(float)));
  for (int i = 0; i < 32; ++i) host[i] = 3;
  check(cudaMemcpyAsync(x.get(), host, 32 * sizeof(float), cudaMemcpyHostToDevice, streams[0]));
  if (!bug) streams.wait();
  launch({1, 32, 0, streams[1]}, "twice", twice, x.get(), y.get());
  check(cudaStreamSynchronize(streams[1]));
  const bool right = y.value() == 6;
  check(cudaFreeHost(host));
  return right;
}

/// The buffer is overwritten while another stream may still read it.
template <bool bug>
bool run_reuse() {
  const Streams streams;
  const Array<float> x(counting(32)), y(32);
  launch({1, 32, 0, streams[0]}, "twice", twice, x.get(), y.get());
  if (!bug) streams.wait();
  check(cudaMemsetAsync(x.get(), 0, 32 * sizeof(float), streams[1]));
  check(cudaStreamSynchronize(streams[1]));
  check(cudaStreamSynchronize(streams[0]));
  return y.values()[31] == 62;
}

/// The host reads pinned memory before the copy into it is known to be complete.
template <bool bug>
bool run_host_read() {
  const Streams streams;
  const Array<float> x(counting(32));
  float* host;
  check(cudaMallocHost(&host, 32 * sizeof(float)));
  check(cudaMemcpyAsync(host, x.get(), 32 * sizeof(float), cudaMemcpyDeviceToHost, streams[0]));
  if (!bug) check(cudaStreamSynchronize(streams[0]));
  const bool right = host[31] == 31;
  check(cudaFreeHost(host));
  return right;
}

/// A fork and a join of two streams within a graph; the bug omits the half of the join that the
/// last kernel needs.
template <bool bug>
bool run_graph() {
  const Streams streams;
  const Array<float> x(32), y(32), z(32);
  cudaEvent_t join;
  check(cudaEventCreate(&join));
  check(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  streams.wait();
  launch({1, 32, 0, streams[1]}, "fill", fill, x.get(), 3.0f);
  check(cudaEventRecord(join, streams[1]));
  if (!bug) check(cudaStreamWaitEvent(streams[0], join, 0));
  launch({1, 32, 0, streams[0]}, "twice", twice, x.get(), y.get());
  if (bug) check(cudaStreamWaitEvent(streams[0], join, 0));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamEndCapture(streams[0], &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  bool right = true;
  for (int i = 0; i < 10; ++i) {
    check(cudaMemsetAsync(x.get(), 0, 32 * sizeof(float), streams[0]));
    check(cudaGraphLaunch(executable, streams[0]));
    check(cudaStreamSynchronize(streams[0]));
    right = right && y.value() == 6;
  }
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
  check(cudaEventDestroy(join));
  return right;
}

void wait_for_itself(void* stream) {
  static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

}  // namespace

PLANTED(kernels_in_two_streams) { return run_two_kernels<false>(); }
PLANTED(kernels_in_two_streams_without_wait) { return run_two_kernels<true>(); }
PLANTED(copy_in_another_stream) { return run_copy_and_kernel<false>(); }
PLANTED(copy_in_another_stream_without_wait) { return run_copy_and_kernel<true>(); }
PLANTED(buffer_reuse) { return run_reuse<false>(); }
PLANTED(buffer_reuse_without_wait) { return run_reuse<true>(); }
PLANTED(branches_of_graph) { return run_graph<false>(); }
PLANTED(branches_of_graph_without_join) { return run_graph<true>(); }
PLANTED(default_stream_in_order) {
  cudaStream_t blocking;
  check(cudaStreamCreate(&blocking));
  const Array<float> x(32), y(32);
  for (int i = 0; i < 3; ++i) {
    launch({1, 32, 0, blocking}, "fill", fill, x.get(), 3.0f);
    launch({1, 32}, "twice", twice, x.get(), y.get());
    launch({1, 32, 0, blocking}, "fill", fill, y.get(), 7.0f);
  }
  const bool right = y.value() == 7;  // cudaMemcpy is on the default stream
  check(cudaStreamDestroy(blocking));
  return right;
}
PLANTED(host_read) { return run_host_read<false>(); }
PLANTED(host_read_without_wait) { return run_host_read<true>(); }
PLANTED(host_function_waits_for_its_stream) {
  const Streams streams;
  check(cudaLaunchHostFunc(streams[0], wait_for_itself, streams[0]));
  check(cudaStreamSynchronize(streams[0]));
  return true;
}
