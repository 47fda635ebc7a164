#include "ferrite/kernels/arange.h"

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// out[i] = value(i)
template <class T, class F>
void generate(const View& out, F&& value) {
  T* o = out.as<T>();
  parallel_for(out.numel, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) o[i] = static_cast<T>(value(i));
  });
}

}  // namespace

void arange(const View& out, Scalar start, Scalar step) {
  dispatch_numeric(out.dtype, "arange", [&]<class T>() {
    if (is_floating(out.dtype) || start.is_floating() || step.is_floating())
      generate<T>(out, [a = start.to<double>(), s = step.to<double>()](std::int64_t i) {
        const double v = a + s * static_cast<double>(i);
        if constexpr (is_half_type<T>)
          return static_cast<float>(v);
        else if constexpr (std::is_integral_v<T>)
          return static_cast<std::int64_t>(v);
        else
          return v;
      });
    else
      generate<T>(out, [a = start.to<std::int64_t>(), s = step.to<std::int64_t>()](std::int64_t i) {
        // Unsigned, as only the sum is sure to fit.
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) +
                                         static_cast<std::uint64_t>(s) *
                                             static_cast<std::uint64_t>(i));
      });
  });
}

void linspace(const View& out, double start, double end) {
  const std::int64_t n = out.numel;
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  dispatch_numeric(out.dtype, "linspace", [&]<class T>() {
    generate<T>(out, [=](std::int64_t i) {
      const double v = i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                                       : end - step * static_cast<double>(n - 1 - i);
      if constexpr (is_half_type<T>)
        return static_cast<float>(v);
      else
        return v;
    });
  });
}

}  // namespace ferrite::kernels::cpu
