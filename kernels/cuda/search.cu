#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/search.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kSearchThreads = 256;

template <class T>
__global__ void __launch_bounds__(kSearchThreads)
    search_rows(std::int64_t n, std::int64_t* out, const T* rows, std::int64_t size,
                std::int64_t step, const T* values, std::int64_t m, bool right) {
  using C = Compute<T>;
  const std::int64_t i = thread_in_grid<kSearchThreads>();
  if (i >= n) return;
  const T* const row = rows + i / m * step;
  out[i] = place_of(static_cast<C>(values[i]), size, right,
                    [row](std::int64_t k) { return static_cast<C>(row[k]); });
}

}  // namespace

void search(const Stream& stream, const View& out, const View& rows, const View& values,
            bool right) {
  if (out.numel == 0) return;
  const std::int64_t size = rows.sizes[1];
  dispatch_all(rows.dtype, "searchsorted", [&]<class T>() {
    launch({"search", stream, blocks_for(out.numel, kSearchThreads), kSearchThreads},
           search_rows<T>, out.numel, out.as<std::int64_t>(), static_cast<const T*>(rows.as<T>()),
           size, rows.sizes[0] == 1 ? std::int64_t{0} : size, static_cast<const T*>(values.as<T>()),
           values.sizes[1], right);
  });
}

}  // namespace ferrite::kernels::cuda
