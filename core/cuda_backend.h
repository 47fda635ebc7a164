// The functions that core/ needs from CUDA: defined in core/cuda/, and in core/no_cuda/, where a
// CUDA device cannot be constructed, so that none of them is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"

namespace ferrite::detail::cuda {

/// Streams of cuda:`device`.
StreamImpl* default_stream(int device);
StreamImpl* pooled_stream(int device, StreamPriority priority);
/// Waits for all work of the device, then throws the errors it threw or reported.
void synchronize(int device);
/// As synchronize(), but leaves errors for their owner to collect.
void drain(int device);

/// The index that Device("cuda") refers to in this thread.
int current_device();
/// Makes it refer to `device` again; like the end of a scope, so that it makes no context there.
void restore_device(int device) noexcept;

Allocator& allocator(int device);
/// Page-locked host memory; DeviceError if there is no CUDA device.
Allocator& pinned_allocator();

/// Queues a copy of `bytes` bytes on `stream`, a stream of a CUDA device, between two devices, at
/// least one of them a CUDA device. The memory on both sides must stay valid until the copy is
/// done. Host memory that is not page-locked may block the caller.
void copy_bytes(const Stream& stream, void* to, const Device& to_device, const void* from,
                const Device& from_device, std::size_t bytes);

/// Whether `stream` is being captured into a graph; only streams of CUDA devices can be.
bool is_capturing(const Stream& stream);
/// The unique id of that capture; 0 if the stream is not being captured.
std::uint64_t capture_id(const Stream& stream);
/// The result of Generator::reserve() if `stream` is being captured by a cuda::Graph; nothing if it
/// is not being captured. CudaError for captures begun by other code, in which all replays would
/// draw the same numbers.
std::optional<PhiloxState> captured_draw(const Stream& stream, Generator& generator,
                                         std::uint64_t blocks);
/// Makes the graph's next draw from `generator` continue from `state`, an earlier captured_draw()
/// of the same capture. CudaError if the state belongs to another capture or to none.
void captured_seek(const Stream& stream, Generator& generator, const PhiloxState& state);
/// If `stream` is being captured by a cuda::Graph, the graph keeps `used` until it has been
/// destroyed.
void captured_keep(const Stream& stream, std::shared_ptr<const void> used);
/// If `stream` is being captured by a cuda::Graph, each replay begins with a call of `f` in the
/// thread that replays. What it throws comes out of replay(), and nothing is replayed.
void captured_before_replay(const Stream& stream, std::function<void()> f);

}  // namespace ferrite::detail::cuda
