#include "ferrite/kernels/cuda/matmul_tiles.cuh"

namespace ferrite::kernels::cuda::native {

void integer_product(const Stream& stream, const View& out, const View& a, const View& b,
                     const MatmulOptions& options) {
  // Unsigned: integers wrap around.
  dispatch_types<std::int32_t, std::int64_t>(out.dtype, "matmul", [&]<class S>() {
    using U = std::make_unsigned_t<S>;
    run_tiles<Tile<U, 64, 64, 32, 32, 8, 4, 3>>(stream, "integer_product",
                                                MatrixProduct<U, U>(out, a, b, options));
  });
}

}  // namespace ferrite::kernels::cuda::native
