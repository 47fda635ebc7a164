// What losses share: the reduction, and checks of their inputs. For ops/ alone.
#pragma once

#include <tuple>

#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/renamed.h"

namespace ferrite::ops {

inline void check_reduction(Reduction reduction, const char* op) {
  FERRITE_CHECK(reduction != Reduction::batchmean, ValueError, op,
                "batchmean is a reduction of kl_div alone; use mean, sum or none");
}

inline Tensor reduced(const Tensor& losses, Reduction reduction, const char* op) {
  check_reduction(reduction, op);
  switch (reduction) {
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    case Reduction::none:
    case Reduction::batchmean:
      break;
  }
  return losses;
}

/// A loss made of other ops: elements(inputs...), reduced. Inputs are on one device, and converted
/// to float32 under autocast; the first is floating. Errors are tagged with `op`.
template <class Elements, class... Inputs>
Tensor composed_loss(const char* op, Reduction reduction, const Elements& elements,
                     const Tensor& first, const Inputs&... others) {
  if (const auto cast = autocast(CastPolicy::float32, first, others...)) {
    if constexpr (sizeof...(others) == 0)
      return composed_loss(op, reduction, elements, *cast);
    else
      return std::apply(
          [&](const auto&... x) { return composed_loss(op, reduction, elements, x...); }, *cast);
  }
  const profiler::OpRange range(op, first, others...);
  FERRITE_CHECK(first.defined(), ValueError, op, "the input is undefined");
  FERRITE_CHECK(is_floating(first.dtype()), DTypeError, op,
                "input must be of a floating type, got {}", first.describe());
  [[maybe_unused]] const auto check_other = [&](const Tensor& t) {
    FERRITE_CHECK(t.defined(), ValueError, op, "an input is undefined");
    FERRITE_CHECK(t.device() == first.device(), DeviceError, op,
                  "inputs are on different devices: {} and {}; move one with to(device)",
                  first.describe(), t.describe());
  };
  (check_other(others), ...);
  return renamed(op, [&] { return reduced(elements(first, others...), reduction, op); });
}

/// `target` as int64; positions of values outside [0, classes) are an IndexError of `op`.
Tensor checked_classes(const Tensor& target, const Tensor& input, std::int64_t classes,
                       const char* op);

}  // namespace ferrite::ops
