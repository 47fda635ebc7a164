// What the emulator's cuSOLVER and cuBLAS compute, by Eigen on the host in float64: matrices are
// column-major with leading dimensions, info is the result.
#pragma once

#include <cusolverDn.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <functional>

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

namespace ferrite::emulator::solver {

using Matrix = Eigen::MatrixXd;
using Eigen::Index;

/// A column-major matrix of the caller's.
struct Columns {
  void* data;
  std::int64_t rows, columns, leading;
  cudaDataType type;

  bool is_valid() const {
    return (type == CUDA_R_32F || type == CUDA_R_64F) && rows >= 0 && columns >= 0 &&
           leading >= std::max<std::int64_t>(1, rows) && (data || rows == 0 || columns == 0);
  }
  double get(Index r, Index c) const {
    const std::int64_t i = r + c * leading;
    return type == CUDA_R_32F ? static_cast<const float*>(data)[i]
                              : static_cast<const double*>(data)[i];
  }
  void set(Index r, Index c, double value) const {
    const std::int64_t i = r + c * leading;
    if (type == CUDA_R_32F)
      static_cast<float*>(data)[i] = static_cast<float>(value);
    else
      static_cast<double*>(data)[i] = value;
  }
  Matrix read() const {
    Matrix m(rows, columns);
    for (Index c = 0; c < columns; ++c)
      for (Index r = 0; r < rows; ++r) m(r, c) = get(r, c);
    return m;
  }
  void write(const Matrix& m) const {
    for (Index c = 0; c < columns; ++c)
      for (Index r = 0; r < rows; ++r) set(r, c, m(r, c));
  }
  /// The symmetric matrix of the upper triangle.
  Matrix read_upper() const { return read().selfadjointView<Eigen::Upper>(); }
};

Columns vector(const void* data, std::int64_t size, cudaDataType type);

/// Does work in the order of a stream; false if the stream refuses it.
bool enqueue(cudaStream_t stream, std::function<void()> work);

int potrf(const Columns& a);
/// Pivot is std::int64_t or int.
template <class Pivot>
int getrf(const Columns& a, Pivot* pivots);
template <class Pivot>
int getrs(const Columns& a, const Pivot* pivots, const Columns& b);
int geqrf(const Columns& a, const Columns& tau);
int orgqr(const Columns& a, const Columns& tau);
int syevd(const Columns& a, const Columns& values);
/// u and vt as wide as they are.
int gesvd(const Columns& a, const Columns& u, const Columns& s, const Columns& vt);
/// u and v square. Does not converge for matrices with elements above 1e30, so that tests see what
/// follows.
int gesvdj(const Columns& a, const Columns& u, const Columns& s, const Columns& v);

}  // namespace ferrite::emulator::solver
