#include "ferrite/kernels/average.h"

#include "ferrite/kernels/cpu/pieces.h"

namespace ferrite::kernels::cpu {

namespace {

template <class A, class B>
void average(const FlatTensors& averages, const FlatTensors& values, double weight) {
  using C = Compute<A>;
  const C w = static_cast<C>(weight);
  for_each_piece(cut(averages), [&](std::size_t, const Piece& piece) {
    A* a = start_of<A>(averages, piece);
    const B* b = start_of<const B>(values, piece);
    if (weight == 1) {  // whatever was in the average
      for (std::int64_t i = 0; i < piece.count; ++i) a[i] = static_cast<A>(static_cast<C>(b[i]));
      return;
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < piece.count; ++i) {
      const C old = a[i];
      a[i] = static_cast<A>(old + w * (static_cast<C>(b[i]) - old));
    }
  });
}

}  // namespace

void average_weight(std::int64_t* count, const View& weight, const AverageArgs& args) {
  *weight.as<double>() = weight_of_next(args, *count);
  ++*count;
}

void average_all(const FlatTensors& averages, const FlatTensors& values, const View& weight) {
  const double w = *weight.as<double>();
  if (averages.dtype == values.dtype)
    return dispatch_floating(averages.dtype, "average_all",
                             [&]<class T>() { average<T, T>(averages, values, w); });
  if (averages.dtype == kFloat32)
    return dispatch_types<Half, BFloat16>(
        values.dtype, "average_all", [&]<class T>() { average<float, T>(averages, values, w); });
  dispatch_types<float>(values.dtype, "average_all", [&]<class From>() {
    dispatch_types<Half, BFloat16>(averages.dtype, "average_all",
                                   [&]<class T>() { average<T, From>(averages, values, w); });
  });
}

}  // namespace ferrite::kernels::cpu
