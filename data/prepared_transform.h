// A transform prepared for many uint8 images: its last steps become a look-up table if possible.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/data/collation.h"
#include "ferrite/data/transforms.h"

namespace ferrite::data {

class PreparedTransform {
 public:
  PreparedTransform() = default;
  /// For images with this many channels. Throws the errors that the transform throws for such an
  /// image.
  PreparedTransform(const Transform& transform, std::int64_t channels);

  /// Applies the transform, with identical bits. `image` is uint8 [C, H, W].
  Tensor operator()(const Tensor& image, Generator& random) const;
  /// The same, written to the batch's next sample; without a copy if the transform ends in a table.
  void add_to(Collation& batch, const Tensor& image, Generator& random) const;

  /// Whether it leaves images unchanged.
  bool is_identity() const { return head_.empty() && tail_.parts().empty(); }
  /// Whether it is entirely a table, applied by look_up().
  bool is_table() const { return head_.empty() && table_.defined(); }
  /// Maps dense channels of `area` values each through the table.
  void look_up(const std::uint8_t* image, std::int64_t area, float* out) const;

 private:
  Tensor head(const Tensor& image, Generator& random) const;
  bool table_fits(const Tensor& image) const;

  std::vector<Transform> head_;  // the transforms before...
  Compose tail_{};               // ...and the pointwise transforms at the end
  Tensor table_;                 // the tail's results for 0..255, float32 [C, 1, 256], or undefined
};

}  // namespace ferrite::data
