// A transform made ready for many uint8 images: what it ends in becomes a table where it can.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/data/collation.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

class PreparedTransform {
 public:
  PreparedTransform() = default;
  /// For images of so many channels. Throws what the transform throws of an image of such.
  PreparedTransform(const Transform& transform, std::int64_t channels);

  /// As the transform, with the same bits. `image` is uint8 [C, H, W].
  Tensor operator()(const Tensor& image, Generator& random) const;
  /// The same as the batch's next sample, without a copy where the transform ends in a table.
  void add_to(Collation& batch, const Tensor& image, Generator& random) const;

  /// Whether it changes nothing.
  bool is_identity() const { return head_.empty() && tail_.parts().empty(); }
  /// Whether it is a table: then look_up() does all of it.
  bool is_table() const { return head_.empty() && table_.defined(); }
  /// Dense channels of `area` values each through the table.
  void look_up(const std::uint8_t* image, std::int64_t area, float* out) const;

 private:
  Tensor head(const Tensor& image, Generator& random) const;
  bool table_fits(const Tensor& image) const;

  std::vector<Transform> head_;  // what comes before...
  Compose tail_{};               // ...the pointwise transforms at the end
  Tensor table_;                 // the tail's values for 0..255, float32 [C, 1, 256], or undefined
};

}  // namespace ferrite::data
