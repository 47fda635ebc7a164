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

class ZeroPad1d : public Cloneable<ZeroPad1d, PadNd<PadMode::constant, 1>> {
 public:
  using Cloneable::Cloneable;
};
class ConstantPad1d : public Cloneable<ConstantPad1d, ConstantPadNd<1>> {
 public:
  using Cloneable::Cloneable;
};
class ReflectionPad1d : public Cloneable<ReflectionPad1d, PadNd<PadMode::reflect, 1>> {
 public:
  using Cloneable::Cloneable;
};
class ReplicationPad1d : public Cloneable<ReplicationPad1d, PadNd<PadMode::replicate, 1>> {
 public:
  using Cloneable::Cloneable;
};
class CircularPad1d : public Cloneable<CircularPad1d, PadNd<PadMode::circular, 1>> {
 public:
  using Cloneable::Cloneable;
};
class ZeroPad2d : public Cloneable<ZeroPad2d, PadNd<PadMode::constant, 2>> {
 public:
  using Cloneable::Cloneable;
};
class ConstantPad2d : public Cloneable<ConstantPad2d, ConstantPadNd<2>> {
 public:
  using Cloneable::Cloneable;
};
class ReflectionPad2d : public Cloneable<ReflectionPad2d, PadNd<PadMode::reflect, 2>> {
 public:
  using Cloneable::Cloneable;
};
class ReplicationPad2d : public Cloneable<ReplicationPad2d, PadNd<PadMode::replicate, 2>> {
 public:
  using Cloneable::Cloneable;
};
class CircularPad2d : public Cloneable<CircularPad2d, PadNd<PadMode::circular, 2>> {
 public:
  using Cloneable::Cloneable;
};
class ZeroPad3d : public Cloneable<ZeroPad3d, PadNd<PadMode::constant, 3>> {
 public:
  using Cloneable::Cloneable;
};
class ConstantPad3d : public Cloneable<ConstantPad3d, ConstantPadNd<3>> {
 public:
  using Cloneable::Cloneable;
};
class ReflectionPad3d : public Cloneable<ReflectionPad3d, PadNd<PadMode::reflect, 3>> {
 public:
  using Cloneable::Cloneable;
};
class ReplicationPad3d : public Cloneable<ReplicationPad3d, PadNd<PadMode::replicate, 3>> {
 public:
  using Cloneable::Cloneable;
};
class CircularPad3d : public Cloneable<CircularPad3d, PadNd<PadMode::circular, 3>> {
 public:
  using Cloneable::Cloneable;
};

}  // namespace ferrite::nn
