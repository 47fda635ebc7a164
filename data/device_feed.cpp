#include "ferrite/data/device_feed.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/data/host.h"

namespace ferrite::data {

using ferrite::detail::Timing;

namespace {

bool is_on(const Device& device, const Tensor& t) { return t.defined() && t.device() == device; }

Tensor memory_for(const Tensor& t, const Device& device) {
  return t.defined() ? empty(t.shape(), {.dtype = t.dtype(), .device = device}) : t;
}

bool fits(const Tensor& memory, const Tensor& t) {
  if (!t.defined() || !memory.defined()) return t.defined() == memory.defined();
  return memory.dtype() == t.dtype() && memory.shape() == t.shape();
}

void record(const std::vector<Tensor>& batch, const Stream& stream) {
  for (const Tensor& t : batch)
    if (t.defined()) t.storage()->record_stream(stream);
}

}  // namespace

Tensor staged(const Tensor& t, const Device& device) {
  if (!t.defined() || is_on(device, t)) return t;
  return device.is_cuda() ? pinned(t) : host_contiguous(t, "data_loader");
}

DeviceFeed::~DeviceFeed() {
  if (sent_) record(sent_->batch, stream_);
}

DeviceFeed::Landing DeviceFeed::allot(std::span<Tensor* const> like) const {
  const Device& device = stream_.device();
  std::vector<Tensor> memory;
  for (const Tensor* t : like) memory.push_back(memory_for(*t, device));
  return {std::move(memory), current_stream(device).impl()->record(Timing::none)};
}

void DeviceFeed::reserve(std::span<Tensor* const> like) { reserved_ = allot(like); }

/// A tensor that is on the device already replaces its reserved memory.
void DeviceFeed::copy(Tensor& to, const Tensor& from) const {
  if (!from.defined() || is_on(stream_.device(), from)) {
    to = from;
    return;
  }
  if (from.nbytes() == 0) return;
  // Before the copy is queued: nothing may fail between the copy and this.
  from.storage()->record_stream(stream_);
  const std::size_t bytes = from.nbytes();
  if (to.device().is_cuda())
    ferrite::detail::cuda::copy_bytes(stream_, to.data_ptr(), to.device(), from.data_ptr(),
                                      from.device(), bytes);
  else
    stream_.enqueue([target = to.data_ptr(), source = from.data_ptr(), bytes] {
      std::memcpy(target, source, bytes);
    });
}

void DeviceFeed::send(std::span<Tensor* const> batch) {
  std::optional<Landing> landing = std::exchange(reserved_, std::nullopt);
  const auto all_fit = [&](const std::vector<Tensor>& memory) {
    return std::ranges::equal(memory, batch,
                              [](const Tensor& m, const Tensor* t) { return fits(m, *t); });
  };
  if (!landing || !all_fit(landing->batch)) landing = allot(batch);
  stream_.impl()->wait(landing->over);
  try {
    for (std::size_t i = 0; i < batch.size(); ++i) copy(landing->batch[i], *batch[i]);
    landing->over = stream_.impl()->record(Timing::none);
  } catch (...) {
    record(landing->batch, stream_);  // the first copy may be running
    throw;
  }
  sent_ = std::move(landing);
}

void DeviceFeed::receive(std::span<Tensor* const> batch) {
  const Stream current = current_stream(stream_.device());
  current.impl()->wait(sent_->over);
  record(sent_->batch, current);
  for (std::size_t i = 0; i < batch.size(); ++i) *batch[i] = std::move(sent_->batch[i]);
  sent_.reset();
}

}  // namespace ferrite::data
