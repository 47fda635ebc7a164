#include "ferrite/kernels/search.h"

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

void search(const View& out, const View& rows, const View& values, bool right) {
  if (out.numel == 0) return;
  const std::int64_t size = rows.sizes[1], m = values.sizes[1];
  const std::int64_t step = rows.sizes[0] == 1 ? 0 : size;
  dispatch_all(rows.dtype, "searchsorted", [&]<class T>() {
    using C = Compute<T>;
    const T* const from = rows.as<T>();
    const T* const x = values.as<T>();
    std::int64_t* const to = out.as<std::int64_t>();
    parallel_for(out.numel, kElementGrain / 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* const row = from + i / m * step;
        to[i] = place_of(static_cast<C>(x[i]), size, right,
                         [row](std::int64_t k) { return static_cast<C>(row[k]); });
      }
    });
  });
}

}  // namespace ferrite::kernels::cpu
