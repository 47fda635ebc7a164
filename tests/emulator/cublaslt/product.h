// A product of the emulator's cuBLASLt: what its descriptors say, and its computation on the host.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace emulator::cublaslt {

/// cublasLtMatrixLayoutOpaque_t.
struct Layout {
  cudaDataType type;
  std::int32_t batch = 1;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, batch_stride = 0;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

/// cublasLtMatmulDescOpaque_t.
struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t left = CUBLAS_OP_N, right = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;     ///< the bias, or receives its gradient
  void* auxiliary = nullptr;  ///< GELU's input, or a bit for each result of a ReLU
  std::int64_t auxiliary_leading = 0, auxiliary_batch_stride = 0;
};
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

/// out = epilogue(alpha left right + beta out), column-major; the operands on the device.
struct Product {
  Description description;
  Layout left, right, out;
  const void *left_data = nullptr, *right_data = nullptr;
  void* out_data = nullptr;
  double alpha = 1, beta = 0;

  /// Whether the library has an algorithm for it: false for what the documentation forbids.
  bool is_supported() const;
  void compute() const;
  /// Zeros for the results.
  void clear() const;
  /// Bytes of the operands, and two operations for each multiplication and addition.
  std::uint64_t bytes_read() const, bytes_written() const;
  std::uint64_t operations() const;
};

}  // namespace emulator::cublaslt
