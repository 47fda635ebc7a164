#include "ferrite/parallel/ddp/bucket.h"

#include <algorithm>

#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"

namespace ferrite::parallel::ddp {

namespace {

constexpr std::int64_t kAlignment = 64;  // bytes

/// The strides of the gradient of `parameter`.
Strides gradient_strides(const Tensor& parameter) {
  return strides_of(parameter.shape(), parameter.suggest_memory_format());
}

std::int64_t padded(const Tensor& t) {
  const std::int64_t unit = kAlignment / static_cast<std::int64_t>(t.itemsize());
  return (t.numel() + unit - 1) / unit * unit;
}

}  // namespace

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Tensor> parameters,
                                                   std::span<const std::size_t> order,
                                                   const BucketLimits& limits) {
  struct Open {
    DType dtype;
    Device device;
    std::size_t limit, bytes = 0, last = 0;
    std::vector<std::size_t> indices = {};
  };
  std::vector<Open> open;
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> done;  // sorted by position of the
                                                                       // last
  const auto close = [&](Open& o) {
    done.emplace_back(o.last, std::exchange(o.indices, {}));
    o.bytes = 0;
    o.limit = limits.bytes;
  };
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Tensor& p = parameters[order[place]];
    auto o = std::ranges::find_if(
        open, [&](const Open& o) { return o.dtype == p.dtype() && o.device == p.device(); });
    if (o == open.end()) {
      open.push_back({p.dtype(), p.device(), limits.first_bytes});
      o = open.end() - 1;
    }
    o->indices.push_back(order[place]);
    o->last = place;
    o->bytes += p.nbytes();
    if (o->bytes >= o->limit) close(*o);
  }
  for (Open& o : open)
    if (!o.indices.empty()) close(o);
  std::ranges::sort(done, {}, [](const auto& bucket) { return bucket.first; });
  // The last bucket is communicated when nothing is left to compute, so it should be small.
  if (!done.empty()) {
    std::vector<std::size_t>& indices = done.back().second;
    std::size_t begin = indices.size(), bytes = 0;
    while (begin > 0 && (bytes += parameters[indices[begin - 1]].nbytes()) <= limits.first_bytes)
      --begin;
    if (begin > 0 && begin < indices.size()) {
      const auto cut = indices.begin() + static_cast<std::ptrdiff_t>(begin);
      std::vector<std::size_t> tail(cut, indices.end());
      indices.erase(cut, indices.end());
      const std::size_t last = done.back().first;
      done.back().first =
          static_cast<std::size_t>(std::ranges::find(order, indices.back()) - order.begin());
      done.emplace_back(last, std::move(tail));
      std::ranges::sort(done, {}, [](const auto& bucket) { return bucket.first; });
    }
  }
  std::vector<std::vector<std::size_t>> plan;
  for (auto& [last, indices] : done) plan.push_back(std::move(indices));
  return plan;
}

Bucket::Bucket(std::vector<std::size_t> indices, std::span<const Tensor> all_parameters,
               std::span<const std::string> all_names)
    : indices_(std::move(indices)) {
  std::int64_t numel = 0;
  for (const std::size_t i : indices_) {
    parameters_.push_back(all_parameters[i]);
    names_.push_back(all_names[i]);
    numel += padded(all_parameters[i]);
  }
  const Tensor& first = parameters_.front();
  flat_ = empty({numel}, {.dtype = first.dtype(), .device = first.device()});
  kernels::fill(current_stream(first.device()), flat_, 0);
  std::int64_t offset = 0;
  for (const Tensor& p : parameters_) {
    views_.push_back(geometry::as_strided(flat_, p.shape(), gradient_strides(p), offset));
    offset += padded(p);
  }
  for (std::size_t slot = 0; slot < views_.size(); ++slot)
    if (parameters_[slot].grad().defined()) take(slot);
}

bool Bucket::holds(std::size_t slot) const {
  const Tensor grad = parameters_[slot].grad();
  const Tensor& view = views_[slot];
  // The engine's accumulation may have put another handle on the same memory there.
  return grad.defined() && grad.shares_storage(flat_) && grad.data_ptr() == view.data_ptr() &&
         grad.strides() == view.strides() && !grad.requires_grad();
}

bool Bucket::take(std::size_t slot) {
  if (holds(slot)) return true;
  const Tensor &parameter = parameters_[slot], &view = views_[slot];
  FERRITE_CHECK(
      parameter.dtype() == view.dtype() && parameter.device() == view.device() &&
          parameter.shape() == view.shape(),
      DistributedError, "ddp",
      "parameter '{}' was {} when its model was wrapped and is {} now; move and convert models "
      "before they are wrapped",
      names_[slot], view.describe(), parameter.describe());
  const Tensor grad = parameter.grad();
  const Stream stream = current_stream(view.device());
  if (!grad.defined()) {
    kernels::fill(stream, view, 0);
    return false;
  }
  kernels::copy(stream, view, grad);
  parameter.set_grad(view);
  return true;
}

}  // namespace ferrite::parallel::ddp
