#include "ferrite/parallel/data_parallel/scatter.h"

#include <algorithm>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/parallel/data_parallel/gather.h"
#include "ferrite/parallel/data_parallel/side_copies.h"

namespace ferrite::parallel {

using autograd::Gradients;
using autograd::Needs;
using dp::SideCopies;

namespace {

/// `t` on `device`, off the tape.
Tensor copied(dp::SideCopies& copies, const Tensor& t, const Device& device, MemoryFormat format) {
  Tensor out = copies.empty(t.shape(), {.dtype = t.dtype(),
                                        .device = device,
                                        .memory_format = format,
                                        .pinned = device.is_host() && t.device().is_cuda()});
  copies.add(out, t);
  return out;
}

void record_move(const Tensor& out, const Tensor& t);

/// `t` on another device.
Tensor moved(const Tensor& t, const Device& device) {
  dp::SideCopies copies("scatter", dp::SideCopies::RunOn::destination);
  const Tensor out = copied(copies, t, device, t.suggest_memory_format());
  copies.finish();
  record_move(out, t);
  return out;
}

void record_move(const Tensor& out, const Tensor& t) {
  if (autograd::recording(t))
    autograd::record(out, "scatter", {t}, [device = t.device()](const Tensor& grad, Needs) {
      return moved(grad, device);
    });
}

bool is_whole(const Tensor& t, std::span<const std::int64_t> sizes) {
  return sizes.size() == 1 && t.dim() > 0;
}

/// The chunks, off the tape.
std::vector<Tensor> split(dp::SideCopies& copies, const Tensor& t, std::span<const Device> devices,
                          std::span<const std::int64_t> sizes, int dim,
                          const std::vector<bool>& wanted) {
  std::vector<Tensor> chunks(sizes.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); start += sizes[i++]) {
    if (!wanted.empty() && !wanted[i]) continue;
    chunks[i] =
        is_whole(t, sizes) ? t : geometry::apply(t, geometry::narrow(t, dim, start, sizes[i]));
    if (devices[i] != t.device())
      chunks[i] = copied(copies, chunks[i], devices[i], t.suggest_memory_format());
  }
  return chunks;
}

/// Records chunks, all of them defined, on the tape.
void record_split(const Tensor& t, std::span<const Tensor> chunks,
                  std::span<const std::int64_t> sizes, int dim) {
  if (chunks.size() == 1 && chunks[0].is_same(t)) return;
  if (autograd::recording(t))
    autograd::record_many(
        chunks, "scatter", {&t, 1},
        [whole = detail::Gathered{.shape = t.shape(),
                                  .options = {.dtype = t.dtype(),
                                              .device = t.device(),
                                              .memory_format = t.suggest_memory_format()},
                                  .dim = dim,
                                  .sizes = {sizes.begin(), sizes.end()}}](Gradients& grads,
                                                                          Needs) -> Gradients {
          return {detail::gather_parts({grads.data(), grads.size()}, whole)};
        });
  for (const Tensor& chunk : chunks)
    if (chunk.device() == t.device()) autograd::link_view(chunk, t);
}

/// How the tensors of one value split; empty for one that goes to every device.
std::vector<std::vector<std::int64_t>> plan(std::span<const Tensor> tensors, std::size_t devices,
                                            int dim) {
  std::vector<std::vector<std::int64_t>> sizes(tensors.size());
  std::size_t first = tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (!t.defined() || t.dim() == 0) continue;
    const int d = normalize_dim(dim, t.dim(), "scatter");
    sizes[i] = detail::chunk_sizes(t.shape()[d], devices);
    if (first == tensors.size()) first = i;
    FERRITE_CHECK(sizes[i].size() == sizes[first].size(), ShapeError, "scatter",
                  "tensors that are split together must give the same number of chunks: along "
                  "dimension {} over {} devices {} gives {}, {} gives {}",
                  dim, devices, tensors[first].describe(), sizes[first].size(), t.describe(),
                  sizes[i].size());
  }
  return sizes;
}

}  // namespace

std::vector<std::int64_t> detail::chunk_sizes(std::int64_t size, std::size_t chunks) {
  const auto n = static_cast<std::int64_t>(chunks);
  const std::int64_t each = (size + n - 1) / n;
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = size; rest > 0; rest -= each) sizes.push_back(std::min(rest, each));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

std::vector<Tensor> detail::scatter_sizes(const Tensor& tensor, std::span<const Device> devices,
                                          std::span<const std::int64_t> sizes, int dim,
                                          const std::vector<bool>& wanted) {
  const bool records = autograd::recording(tensor);
  dp::SideCopies copies("scatter", dp::SideCopies::RunOn::destination);
  std::vector<Tensor> chunks =
      split(copies, tensor, devices, sizes, dim, records ? std::vector<bool>() : wanted);
  copies.finish();
  if (records) record_split(tensor, chunks, sizes, dim);
  return chunks;
}

std::vector<std::vector<Tensor>> detail::scatter_tensors(std::span<const Tensor> tensors,
                                                         std::span<const Device> devices, int dim) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "scatter");
  FERRITE_CHECK(!devices.empty(), ValueError, "scatter", "expected one device or more, got none");
  const auto sizes = plan(tensors, devices.size(), dim);
  std::size_t count = devices.size();
  for (const auto& s : sizes)
    if (!s.empty()) count = s.size();

  dp::SideCopies copies("scatter", dp::SideCopies::RunOn::destination);
  std::vector<std::vector<Tensor>> chunks(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (!sizes[i].empty()) {
      chunks[i] = split(copies, t, devices, sizes[i], normalize_dim(dim, t.dim(), "scatter"), {});
      continue;
    }
    for (std::size_t d = 0; d < count; ++d)
      chunks[i].push_back(
          t.defined() && devices[d] != t.device() ? copied(copies, t, devices[d], kContiguous) : t);
  }
  copies.finish();

  std::vector<std::vector<Tensor>> result(count, std::vector<Tensor>(tensors.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (!sizes[i].empty()) {
      record_split(t, chunks[i], sizes[i], normalize_dim(dim, t.dim(), "scatter"));
    } else if (t.defined()) {
      for (const Tensor& copy : chunks[i])
        if (!copy.is_same(t)) record_move(copy, t);
    }
    for (std::size_t d = 0; d < count; ++d) result[d][i] = chunks[i][d];
  }
  return result;
}

std::vector<Tensor> scatter(const Tensor& tensor, std::span<const Device> devices, int dim) {
  FERRITE_CHECK(tensor.defined(), ValueError, "scatter", "the tensor is undefined");
  std::vector<Tensor> chunks;
  for (std::vector<Tensor>& of_device : detail::scatter_tensors({&tensor, 1}, devices, dim))
    chunks.push_back(std::move(of_device[0]));
  return chunks;
}

}  // namespace ferrite::parallel
