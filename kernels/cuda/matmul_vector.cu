// Products of a matrix and a vector. Each element of the matrix is read once, and this determines
// the time.
#include "ferrite/kernels/cuda/matmul_tiles.cuh"

namespace ferrite::kernels::cuda::native {

namespace {

constexpr int kVectorThreads = 256, kWarps = kVectorThreads / kWarp;

/// A batch of matrices and vectors.
template <class S>
struct VectorProduct {
  const S *matrix, *vector;
  std::uint32_t rows, depth;
  std::int64_t matrix_batch_step, row_step, depth_step;
  std::int64_t vector_batch_step, vector_step;
};

/// Stores a result or a partial sum.
template <class T, class Out>
__device__ __forceinline__ void store_sum(const Out& out, const TileGrid<T>& grid,
                                          std::uint32_t part, std::uint32_t batch,
                                          std::uint32_t row, T sum) {
  const Pack<T, 1> value{{sum}};
  if (grid.partial)
    *grid.partial_row(part, batch, row) = sum;
  else
    out.template store<1, Along::columns>(batch, row, 0, value);
}

/// One warp per row and part of the depth, along which matrix and vector are dense for V > 1.
template <class S, int V, class Out, class T = Compute<S>>
__global__ void __launch_bounds__(kVectorThreads)
    rows_by_vector(VectorProduct<S> p, Out out, TileGrid<T> grid, std::uint32_t parts) {
  constexpr int kUnroll = 4;
  const std::uint32_t task = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const std::uint32_t part = task / p.rows, row = task - part * p.rows;
  const std::uint32_t batch = grid.first_batch + blockIdx.y;
  if (part >= parts) return;  // a whole warp
  const S* const matrix = p.matrix + batch * p.matrix_batch_step + row * p.row_step;
  const S* const vector = p.vector + batch * p.vector_batch_step;
  const std::uint32_t end = std::min(p.depth, (part + 1) * grid.depth_step);
  T sums[kUnroll] = {};
  for (std::uint32_t k = part * grid.depth_step + threadIdx.x % kWarp * V; k < end;
       k += kUnroll * kWarp * V) {
    Pack<S, V> a[kUnroll], b[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::uint32_t at = k + u * kWarp * V;
      if (at + V <= end) {
        a[u] = load_pack<V>(matrix + at * (V > 1 ? 1 : p.depth_step));
        b[u] = load_pack<V>(vector + at * (V > 1 ? 1 : p.vector_step));
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::uint32_t at = k + u * kWarp * V;
      if (at + V <= end)
#pragma unroll
        for (int i = 0; i < V; ++i)
          sums[u] += static_cast<T>(a[u].v[i]) * static_cast<T>(b[u].v[i]);
      else
#pragma unroll 1
        for (std::uint32_t i = at; i < end; ++i)  // fewer than V
          sums[u] += static_cast<T>(matrix[i]) * static_cast<T>(vector[i]);
    }
  }
  const T sum = warp_reduce((sums[0] + sums[1]) + (sums[2] + sums[3]), Add());
  if (threadIdx.x % kWarp == 0) store_sum(out, grid, part, batch, row, sum);
}

/// One lane per row, for rows that are adjacent in memory; the warps of a block share a part of the
/// depth.
template <class S, class Out, class T = Compute<S>>
__global__ void __launch_bounds__(kVectorThreads)
    columns_by_vector(VectorProduct<S> p, Out out, TileGrid<T> grid) {
  constexpr int kUnroll = 8;
  const std::uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::uint32_t row = blockIdx.x * kWarp + lane, batch = grid.first_batch + blockIdx.y;
  const bool any = row < p.rows;
  const S* const matrix = p.matrix + batch * p.matrix_batch_step + row * p.row_step;
  const S* const vector = p.vector + batch * p.vector_batch_step;
  const std::uint32_t end = std::min(p.depth, (blockIdx.z + 1) * grid.depth_step);
  T sum = 0;
  for (std::uint32_t k = blockIdx.z * grid.depth_step + warp; k < end; k += kUnroll * kWarps) {
    S a[kUnroll], b[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (const std::uint32_t at = k + u * kWarps; any && at < end) {
        a[u] = matrix[at * p.depth_step];
        b[u] = vector[at * p.vector_step];
      }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (any && k + u * kWarps < end) sum += static_cast<T>(a[u]) * static_cast<T>(b[u]);
  }
  FERRITE_SHARED(shared, T[kWarps][kWarp]);
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || !any) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += shared[w][lane];
  store_sum(out, grid, blockIdx.z, batch, row, sum);
}

/// The product with one column.
template <class S, class T = Compute<S>>
void run(const Stream& stream, const MatrixProduct<S, T>& product) {
  using Out = TileOutput<S, T, MatrixMap>;
  const MatrixView &a = product.a, &b = product.b;
  const VectorProduct<S> p{static_cast<const S*>(a.data),
                           static_cast<const S*>(b.data),
                           static_cast<std::uint32_t>(a.rows),
                           static_cast<std::uint32_t>(a.columns),
                           a.batch_step,
                           a.row_step,
                           a.column_step,
                           b.batch_step,
                           b.row_step};
  const TileSizes sizes = product.sizes();
  const Out out = product.output(1);
  // Enough warps, each with 2 KiB in flight, to saturate the memory of a large GPU.
  if (p.row_step == 1 && p.depth_step != 1) {
    const unsigned blocks = blocks_for(a.rows, kWarp);
    const DepthParts parts = plan_parts(blocks * sizes.batches, sizes.depth, 64, 1024);
    return launch_in_parts<T>(stream, out, sizes, parts, [&](const TileGrid<T>& grid) {
      launch({"columns_by_vector", stream,
              dim3(blocks, grid.batches, static_cast<unsigned>(parts.count)), kVectorThreads},
             columns_by_vector<S, Out>, p, out, grid);
    });
  }
  constexpr int kPack = kPackBytes / static_cast<int>(sizeof(S));
  const auto whole = [](std::int64_t n) { return n % kPack == 0; };
  const bool dense = p.depth_step == 1 && p.vector_step == 1 && is_aligned(p.matrix, kPack) &&
                     is_aligned(p.vector, kPack) && whole(p.row_step) &&
                     whole(p.matrix_batch_step) && whole(p.vector_batch_step);
  const DepthParts parts = plan_parts(sizes.rows * sizes.batches, sizes.depth, 1024, 4096);
  launch_in_parts<T>(stream, out, sizes, parts, [&](const TileGrid<T>& grid) {
    launch({"rows_by_vector", stream,
            dim3(blocks_for(sizes.rows * parts.count, kWarps), grid.batches), kVectorThreads},
           dense ? rows_by_vector<S, kPack, Out> : rows_by_vector<S, 1, Out>, p, out, grid,
           static_cast<std::uint32_t>(parts.count));
  });
}

}  // namespace

void vector_product(const Stream& stream, const View& out, const View& a, const View& b,
                    const MatmulOptions& options) {
  dispatch_floating(out.dtype, "matmul", [&]<class S>() {
    MatrixProduct<S, Compute<S>> product(out, a, b, options);
    if (product.out.columns != 1) product.transpose();
    run<S>(stream, product);
  });
}

}  // namespace ferrite::kernels::cuda::native
