#include "parallel/comm/local/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/stream.h"
#include "kernels/combine.h"

namespace ferrite::parallel::local {

namespace {

using kernels::Combine;
using kernels::View;

/// So much is added up at a time, so that the partial sums stay in the nearest cache.
constexpr std::int64_t kBlock = 2048;

Combine combine_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return Combine::sum;
    case ReduceOp::product:
      return Combine::product;
    case ReduceOp::min:
      return Combine::min;
    case ReduceOp::max:
      return Combine::max;
  }
  return Combine::sum;
}

View flat(void* data, std::int64_t numel, DType dtype) {
  View view;
  view.data = data;
  view.numel = numel;
  view.ndim = 1;
  view.dtype = dtype;
  view.sizes[0] = numel;
  view.strides[0] = 1;
  return view;
}

}  // namespace

void reduce(void* out, std::span<const void* const> sources, std::int64_t numel, DType dtype,
            ReduceOp op) {
  const auto ranks = sources.size();
  const std::size_t size = itemsize(dtype);
  if (ranks == 1) {
    const std::size_t bytes = static_cast<std::size_t>(numel) * size;
    if (out != sources[0] && bytes > 0) std::memcpy(out, sources[0], bytes);
    return;
  }
  const Stream host;
  const Combine how = combine_of(op);
  const double scale = op == ReduceOp::avg ? 1 / static_cast<double>(ranks) : 1;
  const bool half = dtype == kFloat16 || dtype == kBFloat16;
  const DType kept = half ? kFloat32 : dtype;  // what partial results are kept in
  const std::int64_t step = ranks == 2 ? std::max<std::int64_t>(numel, 1) : kBlock;
  alignas(64) std::array<std::byte, kBlock * sizeof(double)> partial;
  for (std::int64_t begin = 0; begin < numel; begin += step) {
    const std::int64_t n = std::min(step, numel - begin);
    const auto at = [&](const void* base) {
      // Kernels take what they read and what they write in one form.
      auto* bytes = static_cast<std::byte*>(const_cast<void*>(base));
      return flat(bytes + static_cast<std::size_t>(begin) * size, n, dtype);
    };
    const View sum = flat(partial.data(), n, kept), result = at(out);
    for (std::size_t r = 1; r < ranks; ++r) {
      const bool last = r + 1 == ranks;
      kernels::combine(host, how, last ? result : sum, r == 1 ? at(sources[0]) : sum,
                       at(sources[r]), last ? scale : 1);
    }
  }
}

}  // namespace ferrite::parallel::local
