#include "ferrite/data/prepared_transform.h"

#include <numeric>

#include "ferrite/data/host.h"

namespace ferrite::data {

namespace {

/// An image of 256 pixels with each value once, in every channel.
Tensor ramp(std::int64_t channels) {
  Tensor image = empty({channels, 1, 256}, {.dtype = kUInt8, .device = kCPU});
  for (std::int64_t c = 0; c < channels; ++c)
    std::iota(image.data<std::uint8_t>() + c * 256, image.data<std::uint8_t>() + (c + 1) * 256,
              std::uint8_t{0});
  return image;
}

}  // namespace

PreparedTransform::PreparedTransform(const Transform& transform, std::int64_t channels)
    : head_(transform.parts()) {
  auto split = head_.end();
  while (split != head_.begin() && std::prev(split)->pointwise()) --split;
  tail_ = Compose(std::vector<Transform>(split, head_.end()));
  head_.erase(split, head_.end());
  if (tail_.parts().empty()) return;
  Generator unused;
  try {
    table_ = tail_.apply(ramp(channels), unused);
  } catch (const Error&) {
    // The earlier transforms may change the number of channels or the type; without any, the error
    // is real.
    if (head_.empty()) throw;
  }
  if (table_.defined() && (table_.dtype() != kFloat32 || !table_.is_contiguous())) table_ = {};
}

bool PreparedTransform::table_fits(const Tensor& image) const {
  return table_.defined() && image.dtype() == kUInt8 && image.dim() == 3 &&
         image.size(0) == table_.size(0);
}

void PreparedTransform::look_up(const std::uint8_t* image, std::int64_t area, float* out) const {
  const auto* table = table_.data<float>();
  for (std::int64_t c = 0; c < table_.size(0); ++c, table += 256)
    for (std::int64_t i = 0; i < area; ++i) *out++ = table[*image++];
}

Tensor PreparedTransform::head(const Tensor& image, Generator& random) const {
  Tensor current = image;
  for (const Transform& t : head_) current = t(current, random);
  return current;
}

Tensor PreparedTransform::operator()(const Tensor& image, Generator& random) const {
  const Tensor current = head(image, random);
  if (!table_fits(current)) return tail_.apply(current, random);
  const Tensor dense = host_contiguous(current, "transform");
  Tensor out = empty(dense.shape(), {.dtype = kFloat32, .device = kCPU});
  look_up(dense.data<std::uint8_t>(), dense.size(1) * dense.size(2), out.data<float>());
  return out;
}

void PreparedTransform::add_to(Collation& batch, const Tensor& image, Generator& random) const {
  const Tensor current = head(image, random);
  if (!table_fits(current)) return batch.add(tail_.apply(current, random));
  const Tensor dense = host_contiguous(current, "transform");
  look_up(dense.data<std::uint8_t>(), dense.size(1) * dense.size(2),
          static_cast<float*>(batch.next(dense.shape(), kFloat32)));
}

}  // namespace ferrite::data
