#include "ferrite/kernels/dropout.h"

#include <cmath>

#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/cpu/philox.h"

namespace ferrite::kernels::cpu {

void dropout(const View& out, const View& in, PhiloxState state, double p) {
  dispatch_floating(out.dtype, "dropout", [&]<class T>() {
    using C = Compute<T>;
    T* o = out.as<T>();
    const T* x = in.as<T>();
    const auto threshold = static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0));
    const C scale = static_cast<C>(1 / (1 - p));
    parallel_for(out.numel, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for_each_batch<1>(state, begin, end,
                        [=](const std::uint32_t* words, std::int64_t first, std::int64_t skip,
                            std::int64_t count) {
                          const std::uint32_t* w = words + skip;
#pragma GCC ivdep
                          for (std::int64_t i = 0; i < count; ++i) {
                            const C kept = static_cast<C>(x[first + i]) * scale;
                            o[first + i] = static_cast<T>(w[i] >= threshold ? kept : C(0));
                          }
                        });
    });
  });
}

}  // namespace ferrite::kernels::cpu
