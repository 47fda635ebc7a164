#include "ferrite/parallel/data_parallel/gather.h"

#include <algorithm>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/parallel/data_parallel/scatter.h"
#include "ferrite/parallel/data_parallel/side_copies.h"

namespace ferrite::parallel {

using autograd::Gradients;
using autograd::Needs;
using detail::Gathered;
using dp::SideCopies;

namespace {

/// Writes the parts into a tensor, off the tape.
Tensor join(dp::SideCopies& copies, std::span<const Tensor> parts, const Gathered& whole) {
  TensorOptions options = whole.options;
  const auto is_on_gpu = [](const Tensor& t) { return t.defined() && t.device().is_cuda(); };
  options.pinned = options.device.is_host() && std::ranges::any_of(parts, is_on_gpu);
  const Tensor out = copies.empty(whole.shape, options);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < parts.size(); start += whole.sizes[i++]) {
    if (whole.sizes[i] == 0) continue;
    const Tensor place =
        geometry::apply(out, geometry::narrow(out, whole.dim, start, whole.sizes[i]));
    parts[i].defined() ? copies.add(place, parts[i]) : copies.add_zeros(place);
  }
  return out;
}

void record_join(const Tensor& out, std::span<const Tensor> parts, const Gathered& whole) {
  if (!autograd::recording(parts)) return;
  std::vector<Device> devices;
  for (const Tensor& part : parts) devices.push_back(part.defined() ? part.device() : Device());
  autograd::record(out, "gather", parts,
                   [devices = std::move(devices), sizes = whole.sizes, dim = whole.dim](
                       const Tensor& grad, Needs needs) -> Gradients {
                     std::vector<bool> wanted;
                     for (std::size_t i = 0; i < sizes.size(); ++i) wanted.push_back(needs[i]);
                     const auto pieces = detail::scatter_sizes(grad, devices, sizes, dim, wanted);
                     Gradients grads(sizes.size());
                     for (std::size_t i = 0; i < sizes.size(); ++i)
                       if (wanted[i]) grads[i] = pieces[i];
                     return grads;
                   });
}

/// The result's properties for parts that are all defined and have dimensions.
Gathered plan(std::span<const Tensor> parts, const Device& target, int dim) {
  const Tensor& first = parts[0];
  const int d = normalize_dim(dim, first.dim(), "gather");
  Gathered whole{.shape = first.shape(),
                 .options = {.dtype = first.dtype(), .device = target},
                 .dim = d,
                 .sizes = {}};
  whole.shape[d] = 0;
  bool channels_last = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    bool fits = part.dim() == first.dim();
    for (int k = 0; fits && k < first.dim(); ++k)
      fits = k == d || part.shape()[k] == first.shape()[k];
    FERRITE_CHECK(fits, ShapeError, "gather",
                  "all sizes but that of dimension {} must agree, got {} of replica {} and {} of "
                  "replica 0",
                  d, part.describe(), i, first.describe());
    FERRITE_CHECK(part.dtype() == first.dtype(), DTypeError, "gather",
                  "expected one dtype, got {} of replica {} and {} of replica 0", part.describe(),
                  i, first.describe());
    whole.shape[d] += part.shape()[d];
    whole.sizes.push_back(part.shape()[d]);
    channels_last = channels_last && part.suggest_memory_format() == kChannelsLast;
  }
  if (channels_last) whole.options.memory_format = kChannelsLast;
  return whole;
}

/// The tensors, with 0-dimensional ones as vectors.
std::vector<Tensor> with_dimensions(std::span<const Tensor> tensors) {
  std::vector<Tensor> parts(tensors.begin(), tensors.end());
  if (std::ranges::all_of(parts, [](const Tensor& t) { return t.dim() == 0; }))
    for (Tensor& part : parts) part = part.reshape({1});
  for (std::size_t i = 0; i < parts.size(); ++i)
    FERRITE_CHECK(parts[i].dim() > 0, ShapeError, "gather",
                  "{} of replica {} has no dimensions, others have", parts[i].describe(), i);
  return parts;
}

/// Tensor number `t` of every replica; empty if none has it.
std::vector<Tensor> parts_of(std::span<const std::vector<Tensor>> values, std::size_t t) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    FERRITE_CHECK(values[i][t].defined() == values[0][t].defined(), ValueError, "gather",
                  "replica {} returned {}, replica 0 {}", i, values[i][t].describe(),
                  values[0][t].describe());
    if (values[i][t].defined()) parts.push_back(values[i][t]);
  }
  return parts.empty() ? parts : with_dimensions(parts);
}

}  // namespace

Tensor detail::gather_parts(std::span<const Tensor> parts, const Gathered& whole) {
  dp::SideCopies copies("gather", dp::SideCopies::RunOn::source);
  const Tensor out = join(copies, parts, whole);
  copies.finish();
  record_join(out, parts, whole);
  return out;
}

std::vector<Tensor> detail::gather_tensors(std::span<const std::vector<Tensor>> values,
                                           const Device& target, int dim) {
  const profiler::detail::LibraryRange range(profiler::Kind::communication, "gather");
  struct Join {
    std::vector<Tensor> parts;
    Gathered whole;
    std::size_t result;
  };
  std::vector<Tensor> results(values.empty() ? 0 : values[0].size());
  std::vector<Join> joins;
  for (std::size_t t = 0; t < results.size(); ++t) {
    std::vector<Tensor> parts = parts_of(values, t);
    if (parts.empty()) continue;
    Gathered whole = plan(parts, target, values[0][t].dim() == 0 ? 0 : dim);
    if (parts.size() == 1 && parts[0].device() == target)
      results[t] = parts[0];
    else
      joins.push_back({std::move(parts), std::move(whole), t});
  }
  dp::SideCopies copies("gather", dp::SideCopies::RunOn::source);
  for (const Join& j : joins) results[j.result] = join(copies, j.parts, j.whole);
  copies.finish();
  for (const Join& j : joins) record_join(results[j.result], j.parts, j.whole);
  return results;
}

Tensor gather(std::span<const Tensor> tensors, const Device& target, int dim) {
  FERRITE_CHECK(!tensors.empty(), ValueError, "gather", "expected one tensor or more, got none");
  std::vector<std::vector<Tensor>> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    FERRITE_CHECK(tensors[i].defined(), ValueError, "gather",
                  "the tensor of replica {} is undefined", i);
    values.push_back({tensors[i]});
  }
  return detail::gather_tensors(values, target, dim)[0];
}

}  // namespace ferrite::parallel
