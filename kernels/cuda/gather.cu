// Reading by index.
#include "ferrite/kernels/cuda/index.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kGatherThreads = 256;
constexpr int kGatherUnroll = 4;

/// `loop`: out, index, and x without its step along the indexed dimension.
template <class Word>
__global__ void __launch_bounds__(kGatherThreads)
    gather_words(StridedLoop<3> loop, Word* out, const Word* x, std::int64_t x_step,
                 const std::int64_t* ids, IndexCheck check) {
  const std::uint32_t first = blockIdx.x * (kGatherThreads * kGatherUnroll) + threadIdx.x;
  Offsets<3> at[kGatherUnroll];
  std::int64_t id[kGatherUnroll];
  Word word[kGatherUnroll];
  std::int64_t bad = -1;
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u) {
    id[u] = -1;
    if (first + u * kGatherThreads >= loop.numel) continue;
    at[u] = loop.offsets(first + u * kGatherThreads);
    id[u] = ids[at[u].at[1]];
    if (!check.fits(id[u])) {
      bad = at[u].at[1];
      id[u] = -1;
    }
  }
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u)
    if (id[u] >= 0) word[u] = x[at[u].at[2] + id[u] * x_step];
#pragma unroll
  for (int u = 0; u < kGatherUnroll; ++u)
    if (id[u] >= 0) out[at[u].at[0]] = word[u];
  if (bad >= 0) report_bad_index(check, ids[bad], bad);
}

/// `index` has the sizes of `out`; `check` has the caller's geometry of it, for messages.
void gather_as(const Stream& stream, std::size_t bytes, const View& out, const View& x,
               const View& index, int dim, const IndexCheck& check) {
  const View base = bases(x, index, dim);
  const auto run = [&]<class Word>() {
    for_each_loop(LoopNest<3>({&out, &index, &base}), [&](const StridedLoop<3>& loop) {
      launch({"gather", stream, blocks_for(loop.numel, kGatherThreads * kGatherUnroll),
              kGatherThreads},
             gather_words<Word>, loop, out.as<Word>(), static_cast<const Word*>(x.as<Word>()),
             x.strides[dim], static_cast<const std::int64_t*>(index.as<std::int64_t>()), check);
    });
  };
  if (bytes == kPackBytes)
    run.template operator()<uint4>();
  else
    dispatch_words(bytes, run);
}

/// Merges the dimensions after `dim` if they are dense; returns whether they are.
bool merge_inner(View& v, int dim) {
  std::int64_t block = 1;
  for (int d = v.ndim - 1; d > dim; --d) {
    if (v.sizes[d] != 1 && v.strides[d] != block) return false;
    block *= v.sizes[d];
  }
  v.ndim = dim + 2;
  v.sizes[dim + 1] = block;
  v.strides[dim + 1] = 1;
  return true;
}

/// Whether `v`, whose last dimension is dense, can also be viewed as elements of `bytes` bytes.
bool can_widen(const View& v, std::int64_t bytes) {
  const auto item = static_cast<std::int64_t>(itemsize(v.dtype));
  bool can = reinterpret_cast<std::uintptr_t>(v.data) % static_cast<std::size_t>(bytes) == 0 &&
             v.sizes[v.ndim - 1] * item % bytes == 0;
  for (int d = 0; d < v.ndim - 1; ++d) can = can && v.strides[d] * item % bytes == 0;
  return can;
}

void widen(View& v, std::int64_t bytes) {
  const std::int64_t factor = bytes / static_cast<std::int64_t>(itemsize(v.dtype));
  v.numel /= factor;
  v.sizes[v.ndim - 1] /= factor;
  for (int d = 0; d < v.ndim - 1; ++d) v.strides[d] /= factor;
}

/// Views dense slices as slices of the widest possible elements; returns their size in bytes.
std::size_t widen_slices(View& out, View& x, int dim) {
  View wide_out = out, wide_x = x;
  const std::size_t item = itemsize(out.dtype);
  if (dim + 1 == out.ndim || !merge_inner(wide_out, dim) || !merge_inner(wide_x, dim)) return item;
  std::int64_t bytes = kPackBytes;
  while (!can_widen(wide_out, bytes) || !can_widen(wide_x, bytes)) bytes /= 2;
  if (bytes < static_cast<std::int64_t>(item)) return item;
  widen(wide_out, bytes);
  widen(wide_x, bytes);
  out = wide_out;
  x = wide_x;
  return static_cast<std::size_t>(bytes);
}

}  // namespace

void gather(const Stream& stream, const char* op, const View& out, const View& x, const View& index,
            int dim) {
  if (out.numel == 0) return;
  gather_as(stream, itemsize(out.dtype), out, x, index, dim,
            IndexCheck(stream, op, x.sizes[dim], index));
}

void index_select(const Stream& stream, const char* op, const View& out, const View& x,
                  const View& index, int dim) {
  if (out.numel == 0) return;
  const IndexCheck check(stream, op, x.sizes[dim], index);
  View to = out, from = x;
  const std::size_t bytes = widen_slices(to, from, dim);
  View ids = to;
  ids.data = index.data;
  ids.dtype = index.dtype;
  std::fill_n(ids.strides, ids.ndim, std::int64_t{0});
  ids.strides[dim] = index.strides[0];
  gather_as(stream, bytes, to, from, ids, dim, check);
}

}  // namespace ferrite::kernels::cuda
