#include "ferrite/parallel/ddp/coalesced.h"

#include <algorithm>
#include <utility>

#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/complex.h"

namespace ferrite::parallel::ddp {

namespace {

DType travels_as(const Tensor& t) {
  switch (t.dtype()) {
    case kBool:
      return kUInt8;
    case kComplexFloat:
      return kFloat32;
    case kComplexDouble:
      return kFloat64;
    default:
      return t.dtype();
  }
}

}  // namespace

Tensor real_of(const Tensor& t) { return is_complex(t.dtype()) ? view_as_real(t.detach()) : t; }

CoalescedTensors::CoalescedTensors(std::vector<Tensor> tensors, std::size_t max_bytes)
    : tensors_(std::move(tensors)), max_bytes_(max_bytes) {}

void CoalescedTensors::set(std::vector<Tensor> tensors) {
  const auto same = [](const Tensor& a, const Tensor& b) { return a.is_same(b); };
  if (std::ranges::equal(tensors_, tensors, same)) return;
  tensors_ = std::move(tensors);
  parts_.clear();
}

void CoalescedTensors::pack() {
  parts_.clear();
  struct Group {
    DType dtype;
    Device device;
    std::vector<std::vector<Tensor>> chunks = {};
    std::size_t bytes = 0;
  };
  std::vector<Group> groups;
  for (const Tensor& t : tensors_) {
    auto g = std::ranges::find_if(
        groups, [&](const Group& g) { return g.dtype == travels_as(t) && g.device == t.device(); });
    if (g == groups.end()) {
      groups.push_back({travels_as(t), t.device()});
      g = groups.end() - 1;
    }
    if (g->chunks.empty() || g->bytes + t.nbytes() > max_bytes_) {
      g->chunks.emplace_back();
      g->bytes = 0;
    }
    g->chunks.back().push_back(t);
    g->bytes += t.nbytes();
  }
  for (const Group& g : groups)
    for (const std::vector<Tensor>& chunk : g.chunks) {
      Part part;
      std::int64_t numel = 0;
      for (const Tensor& t : chunk) numel += real_of(t).numel();
      part.flat = ferrite::empty({numel}, {.dtype = g.dtype, .device = g.device});
      std::int64_t offset = 0;
      for (const Tensor& t : chunk) {
        part.tensors.push_back(t);
        const Shape shape = real_of(t).shape();
        part.views.push_back(
            geometry::as_strided(part.flat, shape, strides_of(shape, kContiguous), offset));
        offset += shape.numel();
      }
      parts_.push_back(std::move(part));
    }
}

/// Whether the tensors are unchanged since they were packed.
bool CoalescedTensors::fits() const {
  if (parts_.empty()) return false;
  for (const Part& part : parts_)
    for (std::size_t i = 0; i < part.tensors.size(); ++i)
      if (travels_as(part.tensors[i]) != part.flat.dtype() ||
          part.tensors[i].device() != part.flat.device() ||
          real_of(part.tensors[i]).shape() != part.views[i].shape())
        return false;
  return true;
}

void CoalescedTensors::broadcast(ProcessGroup& group, int root) {
  if (!fits()) pack();
  std::vector<Work> works;
  for (const Part& part : parts_) {
    const Stream stream = current_stream(part.flat.device());
    if (group.rank() == root)
      for (std::size_t i = 0; i < part.tensors.size(); ++i)
        kernels::copy(stream, part.views[i], real_of(part.tensors[i]));
    works.push_back(group.broadcast(part.flat, root));
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    works[p].wait();
    if (group.rank() == root) continue;
    const Part& part = parts_[p];
    const Stream stream = current_stream(part.flat.device());
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      kernels::copy(stream, real_of(part.tensors[i]), part.views[i]);
      part.tensors[i].storage()->bump_version("broadcast");
    }
  }
}

void broadcast_coalesced(ProcessGroup& group, std::span<const Tensor> tensors, int root) {
  CoalescedTensors(std::vector<Tensor>(tensors.begin(), tensors.end())).broadcast(group, root);
}

}  // namespace ferrite::parallel::ddp
