#include "ferrite/parallel/data_parallel/side_copies.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ferrite/autograd/node.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/late_errors.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/transfer.h"

namespace ferrite::parallel::dp {

namespace {

namespace cuda = ferrite::detail::cuda;
using ferrite::detail::Mark;
using ferrite::detail::Timing;

enum class Direction : std::uint8_t { in, out };

/// The stream for copies to a device, or from it, in forward or backward passes. Separate streams,
/// so that the next batch does not wait for results to be computed and sent, nor for gradients. The
/// host has none.
Stream side_stream(const Device& device, Direction direction) {
  if (device.is_host()) return Stream();
  static std::mutex mutex;
  static std::array<std::optional<Stream>, 8 * (Device::kMaxIndex + 1)> streams;
  const bool backward = autograd::current_node() != nullptr;
  const int slot =
      device.index() * 8 + device.is_cuda() * 4 + backward * 2 + (direction == Direction::out);
  std::lock_guard lock(mutex);
  auto& stream = streams[static_cast<std::size_t>(slot)];
  if (!stream) stream = Stream::create(device);
  return *stream;
}

Stream stream_in(const Device& device) { return side_stream(device, Direction::in); }
Stream stream_out(const Device& device) { return side_stream(device, Direction::out); }

/// In a backward pass, the gradients of all devices are available for the node's stream.
void wait_for_gradients(const Stream& stream) {
  if (autograd::Node* node = autograd::current_node()) stream.wait(node->stream);
}

/// `t` with contiguous memory; packed by its own device if necessary.
Tensor dense(const Tensor& t, MemoryFormat format) {
  if (t.is_contiguous(format)) return t;
  Tensor run = ferrite::empty(t.shape(),
                              {.dtype = t.dtype(), .device = t.device(), .memory_format = format});
  const Stream stream = current_stream(t.device());
  wait_for_gradients(stream);
  kernels::copy(stream, run, t);
  return run;
}

}  // namespace

SideCopies::~SideCopies() {
  try {
    finish();
  } catch (...) {  // only after another exception
  }
}

Tensor SideCopies::empty(const Shape& shape, const TensorOptions& options) {
  const Stream user = current_stream(options.device);
  if (options.device.is_host()) return ferrite::empty(shape, options);
  const StreamGuard guard(stream_in(options.device));
  Tensor memory = ferrite::empty(shape, options);
  memory.storage()->record_stream(user);
  return memory;
}

SideCopies::Lane& SideCopies::lane(const Stream& stream, const Tensor& to, const Tensor& from) {
  stream.wait(stream_in(to.device()));  // the stream that owns the memory
  auto found = std::ranges::find_if(lanes_, [&](const Lane& l) {
    return l.stream == stream && l.from == from.device() && l.to == to.device();
  });
  if (found == lanes_.end()) {
    lanes_.push_back({stream, from.device(), to.device()});
    found = lanes_.end() - 1;
    wait_for_gradients(stream);
    stream.wait(current_stream(from.device()));
  }
  return *found;
}

void SideCopies::add(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const Device &source = from.device(), &target = to.device();
  for (const Device& device : {source, target})
    FERRITE_CHECK(source == target || !cuda::is_capturing(current_stream(device)), CudaError, op_,
                  "a copy from {} to {} cannot become part of a graph that is being captured",
                  source, target);
  if (source == target) {
    const Stream stream = current_stream(target);
    stream.wait(stream_in(target));
    wait_for_gradients(stream);
    kernels::copy(stream, to, from);
  } else if (source.is_cpu() && target.is_cpu()) {
    between_cpus(to, from);
  } else if (source.is_cuda() && target.is_cuda()) {
    between_gpus(to, from);
  } else {
    through_host(to, from);
  }
}

void SideCopies::add_zeros(const Tensor& to) {
  const Stream stream = current_stream(to.device());
  stream.wait(stream_in(to.device()));
  kernels::fill(stream, to, 0);
}

void SideCopies::between_cpus(const Tensor& to, const Tensor& from) {
  const bool of_target =
      from.device().is_host() || (run_on_ == RunOn::destination && !to.device().is_host());
  Lane& l = lane(of_target ? stream_in(to.device()) : stream_out(from.device()), to, from);
  if (from.device().is_host() && !from.is_pinned())
    l.reads_host = true;
  else
    from.storage()->record_stream(l.stream);
  kernels::copy(l.stream, to, from);
}

void SideCopies::between_gpus(const Tensor& to, const Tensor& from) {
  const MemoryFormat format = to.suggest_memory_format();
  const bool direct = to.is_contiguous(format);
  const Stream in = stream_in(to.device());
  const Stream stream = direct && run_on_ == RunOn::source ? stream_out(from.device()) : in;
  const Tensor run = dense(from, format);
  Lane& l = lane(stream, to, from);
  if (!run.is_same(from)) stream.wait(current_stream(from.device()));
  Tensor landed = to;
  if (!direct) {
    const StreamGuard guard(in);
    landed = ferrite::empty(to.shape(),
                            {.dtype = to.dtype(), .device = to.device(), .memory_format = format});
  }
  run.storage()->record_stream(l.stream);
  cuda::copy_bytes(stream, landed.data_ptr(), to.device(), run.data_ptr(), from.device(),
                   run.nbytes());
  if (!direct) kernels::copy(in, to, landed);
}

void SideCopies::through_host(const Tensor& to, const Tensor& from) {
  const Stream out = stream_out(from.device()), in = stream_in(to.device());
  lane(from.device().is_host() ? in : out, to, from);
  if (!from.device().is_host() && !to.device().is_host()) lane(in, to, from);
  from.storage()->record_stream(out);
  const StreamGuard source(out), target(in);
  // Waits here for copies whose source the caller may change at once, and for those that cannot be
  // written in place.
  ops::transfer(to, from, !from.device().is_host() || from.is_pinned(), op_);
}

void SideCopies::finish() {
  std::vector<std::pair<std::shared_ptr<Mark>, Device>> awaited;
  for (const Lane& l : lanes_) {
    const std::shared_ptr<Mark> done = l.stream.impl()->record(Timing::none);
    if (!l.from.is_host())  // the stream whose later work may change the source
      current_stream(l.from).impl()->wait(done);
    if (!l.to.is_host()) current_stream(l.to).impl()->wait(done);
    if (l.to.is_host() || l.reads_host) awaited.emplace_back(done, l.from);
  }
  lanes_.clear();
  for (const auto& [done, from] : awaited) done->wait();
  for (const auto& [done, from] : awaited) ferrite::detail::throw_late_errors(current_stream(from));
}

}  // namespace ferrite::parallel::dp
