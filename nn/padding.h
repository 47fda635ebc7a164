// Layers that pad the last dimensions, of one to three: `ReflectionPad2d(1)` on every side, or
// `ReflectionPad2d({1, 1, 0, 2})` with the amounts of pad() (ops/rearrange.h), pairs of (before,
// after) from the last dimension backwards.
#pragma once

#include <array>
#include <concepts>

#include "ferrite/nn/module.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite::nn {

/// The common base in N dimensions.
template <PadMode mode, int N>
class PadNd : public Module {
 public:
  /// How much is added on each side, beginning with the last dimension.
  using Amounts = std::array<std::int64_t, 2 * N>;
  explicit PadNd(std::int64_t all) { amounts_.fill(all); }
  explicit PadNd(const Amounts& amounts) : amounts_(amounts) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 protected:
  Amounts amounts_{};
};

/// With a value that is given.
template <int N>
class ConstantPadNd : public PadNd<PadMode::constant, N> {
  using Base = PadNd<PadMode::constant, N>;

 public:
  ConstantPadNd(std::int64_t all, double value) : Base(all), value_(value) {}
  ConstantPadNd(const typename Base::Amounts& amounts, double value)
      : Base(amounts), value_(value) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double value_;
};

/// Adds zeros around the last dimension, by one number on every side or by two amounts, left and
/// right. Negative amounts crop.
class ZeroPad1d : public Cloneable<ZeroPad1d, PadNd<PadMode::constant, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds elements of a given value around the last dimension, by one number on every side or by two
/// amounts, left and right. Negative amounts crop. `ConstantPad1d(1, 0.5)` adds 0.5.
class ConstantPad1d : public Cloneable<ConstantPad1d, ConstantPadNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds the mirror image of the input, without its border, around the last dimension, by one number
/// on every side or by two amounts, left and right. a b c, padded by 2 at both ends, becomes c b a
/// b c b a. ValueError unless the amounts are 0 or more and below the size.
class ReflectionPad1d : public Cloneable<ReflectionPad1d, PadNd<PadMode::reflect, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// Repeats the border of the input around the last dimension, by one number on every side or by two
/// amounts, left and right. a b c, padded by 2 at both ends, becomes a a a b c c c. ValueError for
/// negative amounts.
class ReplicationPad1d : public Cloneable<ReplicationPad1d, PadNd<PadMode::replicate, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// Continues the input from its opposite end around the last dimension, by one number on every side
/// or by two amounts, left and right. a b c, padded by 2 at both ends, becomes b c a b c a b.
/// ValueError unless the amounts are 0 or more and at most the size.
class CircularPad1d : public Cloneable<CircularPad1d, PadNd<PadMode::circular, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds zeros around the last two dimensions, by one number on every side or by four amounts, left,
/// right, top and bottom. Negative amounts crop.
///
///   nn::ZeroPad2d pad({1, 1, 0, 2});
///   Tensor y = pad(randn({1, 3, 8, 8}));  // [1, 3, 10, 10]
class ZeroPad2d : public Cloneable<ZeroPad2d, PadNd<PadMode::constant, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds elements of a given value around the last two dimensions, by one number on every side or by
/// four amounts, left, right, top and bottom. Negative amounts crop. `ConstantPad2d(1, 0.5)` adds
/// 0.5.
class ConstantPad2d : public Cloneable<ConstantPad2d, ConstantPadNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds the mirror image of the input, without its border, around the last two dimensions, by one
/// number on every side or by four amounts, left, right, top and bottom. a b c, padded by 2 at both
/// ends, becomes c b a b c b a. ValueError unless the amounts are 0 or more and below the size.
class ReflectionPad2d : public Cloneable<ReflectionPad2d, PadNd<PadMode::reflect, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// Repeats the border of the input around the last two dimensions, by one number on every side or
/// by four amounts, left, right, top and bottom. a b c, padded by 2 at both ends, becomes a a a b c
/// c c. ValueError for negative amounts.
class ReplicationPad2d : public Cloneable<ReplicationPad2d, PadNd<PadMode::replicate, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// Continues the input from its opposite end around the last two dimensions, by one number on every
/// side or by four amounts, left, right, top and bottom. a b c, padded by 2 at both ends, becomes b
/// c a b c a b. ValueError unless the amounts are 0 or more and at most the size.
class CircularPad2d : public Cloneable<CircularPad2d, PadNd<PadMode::circular, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds zeros around the last three dimensions, by one number on every side or by six amounts,
/// left, right, top, bottom, front and back. Negative amounts crop.
class ZeroPad3d : public Cloneable<ZeroPad3d, PadNd<PadMode::constant, 3>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds elements of a given value around the last three dimensions, by one number on every side or
/// by six amounts, left, right, top, bottom, front and back. Negative amounts crop.
/// `ConstantPad3d(1, 0.5)` adds 0.5.
class ConstantPad3d : public Cloneable<ConstantPad3d, ConstantPadNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// Adds the mirror image of the input, without its border, around the last three dimensions, by one
/// number on every side or by six amounts, left, right, top, bottom, front and back. a b c, padded
/// by 2 at both ends, becomes c b a b c b a. ValueError unless the amounts are 0 or more and below
/// the size.
class ReflectionPad3d : public Cloneable<ReflectionPad3d, PadNd<PadMode::reflect, 3>> {
 public:
  using Cloneable::Cloneable;
};

/// Repeats the border of the input around the last three dimensions, by one number on every side or
/// by six amounts, left, right, top, bottom, front and back. a b c, padded by 2 at both ends,
/// becomes a a a b c c c. ValueError for negative amounts.
class ReplicationPad3d : public Cloneable<ReplicationPad3d, PadNd<PadMode::replicate, 3>> {
 public:
  using Cloneable::Cloneable;
};

/// Continues the input from its opposite end around the last three dimensions, by one number on
/// every side or by six amounts, left, right, top, bottom, front and back. a b c, padded by 2 at
/// both ends, becomes b c a b c a b. ValueError unless the amounts are 0 or more and at most the
/// size.
class CircularPad3d : public Cloneable<CircularPad3d, PadNd<PadMode::circular, 3>> {
 public:
  using Cloneable::Cloneable;
};

}  // namespace ferrite::nn
