// The sums of a pooling's gradient over channels, in the launch that computes the gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/last_block.cuh"
#include "ferrite/kernels/cuda/pool_window.cuh"
#include "ferrite/kernels/cuda/relu_mask.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

/// Counters that a forward kernel sets to 0 for a later backward.
struct Cleared {
  std::int32_t* counters = nullptr;
  std::uint32_t count = 0;

  Cleared() = default;
  explicit Cleared(const View& v)
      : counters(v.as<std::int32_t>()), count(v.data ? static_cast<std::uint32_t>(v.numel) : 0) {}
  __device__ void clear(std::uint32_t item, std::uint32_t items) const {
    for (std::uint32_t i = item; i < count; i += items) counters[i] = 0;
  }
};

/// The sums of the gradients of a channel's cells in NCHW. Each window gives its gradient to one
/// cell, so that they are the sums over the results, of which there are fewer. The first blocks of
/// a backward launch compute them: each block a piece of a channel, and the last block of a channel
/// adds up its pieces. The order depends on sizes alone.
template <class T>
struct ChannelSums {
  const T *grad_out, *relu_out;
  T* sums;
  double* partial;  // [channels, pieces]
  std::int32_t* counters;
  std::uint32_t channels = 0, pieces = 0, per_piece = 0, results = 0;  // results of a channel
  Divisor plane{1};

  __host__ __device__ unsigned blocks() const { return channels * pieces; }

  /// The work of a block whose index is below blocks().
  __device__ void run() const {
    using S = Compute<T>;
    [[maybe_unused]] constexpr int kUnroll = sizeof(T) == 8 ? 1 : 4;  // g++ ignores the pragma
    const std::uint32_t channel = blockIdx.x % channels, piece = blockIdx.x / channels;
    const std::uint32_t begin = piece * per_piece, end = min(begin + per_piece, results);
    S sum = 0;
#pragma unroll kUnroll
    for (std::uint32_t i = begin + threadIdx.x; i < end; i += kPoolThreads) {
      std::uint32_t image = i;
      const std::uint32_t inside = plane.split(image);
      const std::int64_t at =
          (static_cast<std::int64_t>(image) * channels + channel) * plane.value() + inside;
      const S g = static_cast<S>(grad_out[at]);
      sum += relu_out != nullptr ? pass(g, relu_out[at]) : g;
    }
    double total = block_reduce<kPoolThreads>(static_cast<double>(sum), 0.0,
                                              [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) partial[channel * pieces + piece] = total;
    if (!detail::is_last(counters + channel, pieces)) return;
    total = 0;
    for (std::uint32_t i = threadIdx.x; i < pieces; i += kPoolThreads)
      total += partial[channel * pieces + i];
    total = block_reduce<kPoolThreads>(total, 0.0, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) sums[channel] = static_cast<T>(total);
  }
};

/// Plans the sums for a launch, and holds their memory.
template <class T>
class SumsOf {
 public:
  /// Does nothing without `channel_sums`, or if one launch cannot compute them.
  SumsOf(const Stream& stream, const Pool2d& p, const View& grad_out, const View& relu_out,
         const View& channel_sums, const View& counters) {
    constexpr std::int64_t kLeast = 8 * kPoolThreads, kMostPieces = 128;
    const std::int64_t plane = p.h.output * p.w.output, results = p.batch * plane;
    if (!channel_sums.data || !counters.data || p.channels_last || results == 0 ||
        results > INT32_MAX || p.channels > 65535)
      return;
    const std::int64_t pieces = std::clamp<std::int64_t>(results / kLeast, 1, kMostPieces);
    const std::int64_t per_piece = (results + pieces - 1) / pieces;
    sums_.grad_out = grad_out.as<const T>();
    sums_.relu_out = relu_out.as<const T>();
    sums_.sums = channel_sums.as<T>();
    sums_.counters = counters.as<std::int32_t>();
    sums_.channels = static_cast<std::uint32_t>(p.channels);
    sums_.per_piece = static_cast<std::uint32_t>(per_piece);
    sums_.pieces = static_cast<std::uint32_t>((results + per_piece - 1) / per_piece);
    sums_.results = static_cast<std::uint32_t>(results);
    sums_.plane = Divisor(static_cast<std::uint32_t>(plane));
    memory_.emplace(stream, sums_.blocks() * sizeof(double));
    sums_.partial = memory_->template as<double>();
  }
  bool computes() const { return memory_.has_value(); }
  /// For the next launch: the first computes the sums.
  ChannelSums<T> take() { return std::exchange(sums_, {}); }

 private:
  ChannelSums<T> sums_{};
  std::optional<Workspace> memory_;
};

/// The thread's number among those behind the blocks of `sums`.
template <class T>
__device__ __forceinline__ std::uint32_t item_behind(const ChannelSums<T>& sums) {
  return (blockIdx.x - sums.blocks()) * static_cast<unsigned>(kPoolThreads) + threadIdx.x;
}

}  // namespace ferrite::kernels::cuda
