// What core/ asks of CUDA: defined in core/cuda/, and in core/no_cuda/, where a cuda device cannot
// be named in the first place, so that none of it is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"

namespace ferrite::detail::cuda {

/// Streams of cuda:`device`.
StreamImpl* default_stream(int device);
StreamImpl* pooled_stream(int device, StreamPriority priority);
/// Waits for all that the device has to do, then throws what its work threw or reported.
void synchronize(int device);
/// As synchronize(), but leaves errors for their owner to collect.
void drain(int device);

/// The index that Device("cuda") stands for in this thread.
int current_device();

Allocator& allocator(int device);
/// Page-locked host memory; DeviceError where there is no CUDA device.
Allocator& pinned_allocator();

/// Queues a copy of `bytes` bytes on `stream`, a stream of a CUDA device, between two devices of
/// which one is a CUDA device. The memory on both sides must stay until it is done. Host memory
/// that is not page-locked may hold up the caller.
void copy_bytes(const Stream& stream, void* to, const Device& to_device, const void* from,
                const Device& from_device, std::size_t bytes);

/// Whether `stream` is being captured into a graph, which only those of CUDA devices can be.
bool is_capturing(const Stream& stream);
/// Which capture that is, a number that no other one has; 0 where the stream is not captured.
std::uint64_t capture_id(const Stream& stream);
/// What Generator::reserve() answers where `stream` is being captured by a cuda::Graph; nothing
/// where it is not captured. CudaError for captures that another began: all replays would draw the
/// same numbers.
std::optional<PhiloxState> captured_draw(const Stream& stream, Generator& generator,
                                         std::uint64_t blocks);
/// Has what the graph draws from `generator` go on from `state`, an earlier captured_draw() of the
/// same capture; CudaError where it is of another, or of none.
void captured_seek(const Stream& stream, Generator& generator, const PhiloxState& state);

}  // namespace ferrite::detail::cuda
