#include "ferrite/parallel/comm/local/engine.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/combination.h"
#include "ferrite/parallel/comm/device_access.h"

namespace ferrite::parallel::local {

namespace {

using kernels::Combine;
using kernels::View;

const void* offset(const void* data, std::int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + static_cast<std::size_t>(elements) * itemsize(dtype);
}

/// The type of partial results.
DType kept(DType dtype) { return is_floating(dtype) && itemsize(dtype) == 2 ? kFloat32 : dtype; }

/// Reduces a block that begins at `begin`: `source(s, begin, n)` is where rank s's values can be
/// read, `partial` is memory for n of them.
template <class Source>
void reduce_piece(const Stream& stream, void* out, std::int64_t begin, std::int64_t n,
                  std::size_t ranks, DType dtype, ReduceOp op, void* partial, Source&& source) {
  const Combine how = comm::combine_of(op);
  const double scale = op == ReduceOp::avg ? 1 / static_cast<double>(ranks) : 1;
  const View sum = comm::flat_view(partial, n, kept(dtype)),
             result = comm::flat_view(offset(out, begin, dtype), n, dtype);
  const View first = comm::flat_view(source(0, begin, n), n, dtype);
  for (std::size_t r = 1; r < ranks; ++r) {
    const bool last = r + 1 == ranks;
    kernels::combine(stream, how, last ? result : sum, r == 1 ? first : sum,
                     comm::flat_view(source(r, begin, n), n, dtype), last ? scale : 1);
  }
}

class HostEngine final : public Engine {
 public:
  void copy(void* to, const Place& from, std::size_t bytes) override {
    if (to != from.data && bytes > 0) std::memcpy(to, from.data, bytes);
  }

  void reduce(void* out, std::span<const Place> sources, std::int64_t numel, DType dtype,
              ReduceOp op) override {
    // Blocks small enough for the partial sums to stay in the L1 cache; two sources need none.
    const std::int64_t step = sources.size() == 2 ? std::max<std::int64_t>(numel, 1) : kBlock;
    alignas(64) std::array<std::byte, kBlock * sizeof(double)> partial;
    for (std::int64_t begin = 0; begin < numel; begin += step)
      reduce_piece(Stream(), out, begin, std::min(step, numel - begin), sources.size(), dtype, op,
                   partial.data(), [&](std::size_t s, std::int64_t at, std::int64_t) {
                     return offset(sources[s].data, at, dtype);
                   });
  }

  void finish(const links::Interrupt&) override {}
  void drain() noexcept override {}

 private:
  static constexpr std::int64_t kBlock = 2048;
};

class DeviceEngine final : public Engine {
 public:
  explicit DeviceEngine(const Device& device)
      : device_(device), stream_(Stream::create(device, StreamPriority::high)) {}
  ~DeviceEngine() override { drain(); }

  void copy(void* to, const Place& from, std::size_t bytes) override {
    if (to == from.data || bytes == 0) return;
    ferrite::detail::cuda::copy_bytes(stream_, to, device_, from.data, from.device, bytes);
    busy_ = true;
  }

  /// Values on other devices are copied here first, a block at a time.
  void reduce(void* out, std::span<const Place> sources, std::int64_t numel, DType dtype,
              ReduceOp op) override {
    if (numel == 0) return;
    const StreamGuard guard(stream_);
    const std::int64_t step = std::min(numel, kPiece);
    const bool far = std::any_of(sources.begin(), sources.end(),
                                 [&](const Place& p) { return p.device != device_; });
    const Tensor partial = room(sources.size() > 2 ? step : 0, kept(dtype));
    const Tensor first = room(far ? step : 0, dtype), other = room(far ? step : 0, dtype);
    const auto source = [&](std::size_t s, std::int64_t at, std::int64_t n) -> const void* {
      const void* const data = offset(sources[s].data, at, dtype);
      if (sources[s].device == device_) return data;
      const Tensor& here = s == 0 ? first : other;
      copy(here.data_ptr(), {data, sources[s].device},
           static_cast<std::size_t>(n) * itemsize(dtype));
      return here.data_ptr();
    };
    busy_ = true;
    for (std::int64_t begin = 0; begin < numel; begin += step)
      reduce_piece(stream_, out, begin, std::min(step, numel - begin), sources.size(), dtype, op,
                   partial.data_ptr(), source);
  }

  void finish(const links::Interrupt& interrupt) override {
    if (!busy_) return;
    comm::wait_for(*stream_.impl()->record(ferrite::detail::Timing::none), interrupt);
    busy_ = false;
  }

  void drain() noexcept override {
    if (!std::exchange(busy_, false)) return;
    try {
      const cuda::BackgroundWaits scope;
      stream_.impl()->record(ferrite::detail::Timing::none)->wait();
    } catch (const Error&) {  // the device is lost, and does nothing more
    }
  }

 private:
  static constexpr std::int64_t kPiece = 1 << 21;

  Tensor room(std::int64_t numel, DType dtype) const {
    return empty({numel}, {.dtype = dtype, .device = device_});
  }

  const Device device_;
  const Stream stream_;
  bool busy_ = false;
};

}  // namespace

std::unique_ptr<Engine> make_host_engine() { return std::make_unique<HostEngine>(); }
std::unique_ptr<Engine> make_device_engine(const Device& device) {
  return std::make_unique<DeviceEngine>(device);
}

}  // namespace ferrite::parallel::local
