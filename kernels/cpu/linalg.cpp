#include "ferrite/kernels/linalg.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/Jacobi>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

namespace {

using Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;
using Vector = Eigen::VectorXd;
template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Matrix `i` of a batch; a batch of vectors has columns.
Index rows_of(const View& v) { return v.sizes[1]; }
Index columns_of(const View& v) { return v.ndim == 2 ? 1 : v.sizes[2]; }

template <class T>
Matrix read_as(const View& v, std::int64_t i) {
  const Index rows = rows_of(v), columns = columns_of(v);
  return Eigen::Map<const RowMajor<T>>(v.as<const T>() + i * rows * columns, rows, columns)
      .template cast<double>();
}
Matrix read(const View& v, std::int64_t i) {
  return v.dtype == kFloat32 ? read_as<float>(v, i) : read_as<double>(v, i);
}

template <class T>
void write_as(const View& v, std::int64_t i, const Matrix& m) {
  Eigen::Map<RowMajor<T>>(v.as<T>() + i * m.size(), m.rows(), m.cols()) = m.template cast<T>();
}
void write(const View& v, std::int64_t i, const Matrix& m) {
  v.dtype == kFloat32 ? write_as<float>(v, i, m) : write_as<double>(v, i, m);
}
/// Element `i` of a batch of numbers, [n].
void write(const View& v, std::int64_t i, double number) {
  v.dtype == kFloat32 ? v.as<float>()[i] = static_cast<float>(number) : v.as<double>()[i] = number;
}

/// Runs body(i) for every matrix of the batch `in`, as work of the stream.
template <class Body>
void for_each_matrix(const Stream& stream, const char* op, const View& in, Body body) {
  FERRITE_CHECK(stream.device().is_cpu(), DeviceError, op, "{} has no linear algebra",
                stream.device());
  const auto work = [=] {
    for (std::int64_t i = 0; i < in.sizes[0]; ++i) body(i);
  };
  const profiler::detail::KernelRange range(stream, op);
  if (stream.impl()->runs_inline)
    work();
  else
    stream.enqueue(work);
}

void check_finite(const Matrix& m, const char* op, std::int64_t i) {
  FERRITE_CHECK(m.allFinite(), ValueError, op, "matrix {} of the batch has NaN or infinities", i);
}

/// Whether all elements of the square matrix below the diagonal are 0, or above it unless `below`.
bool has_zeros(const Matrix& m, bool below) {
  for (Index j = 0; j < m.cols(); ++j) {
    const Index begin = below ? j + 1 : 0, end = below ? m.rows() : j;
    if ((m.col(j).segment(begin, end - begin).array() != 0).any()) return false;
  }
  return true;
}

/// Rotates columns of `b`, and those of `v` with them, until all are orthogonal: what rounding
/// leaves of their products changes no singular value by more than the last places of the largest.
/// False if that does not end. One-sided Jacobi: Hestenes, "Inversion of Matrices by
/// Biorthogonalization and Related Results" (1958).
bool orthogonalize(Matrix& b, Matrix& v) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  constexpr int kSweeps = 40;
  const Index n = b.cols();
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const Matrix products = b.transpose() * b;
    const Vector norms = products.diagonal().cwiseSqrt();
    const double largest = norms.maxCoeff();
    bool rotated = false;
    for (Index j = 1; j < n; ++j)
      for (Index i = 0; i < j; ++i) {
        const double rounding = kEpsilon * (largest * std::max(norms[i], norms[j]) +
                                            static_cast<double>(n) * norms[i] * norms[j]);
        if (std::abs(products(i, j)) <= rounding) continue;
        Eigen::JacobiRotation<double> rotation;
        rotation.makeJacobi(b.col(i).squaredNorm(), b.col(i).dot(b.col(j)), b.col(j).squaredNorm());
        b.applyOnTheRight(i, j, rotation);
        v.applyOnTheRight(i, j, rotation);
        rotated = true;
      }
    if (!rotated) return true;
  }
  return false;
}

struct SingularValues {
  Matrix u;
  Vector s;
  Matrix v;
};

/// a = u diag(s) v^T of a matrix with rows >= columns; u is square if `full`. Nothing if the
/// iterations do not converge. The eigenvectors of a^T a make its columns nearly orthogonal, so
/// that few rotations follow: Jacobi's method alone takes forty times as long for 512 columns, and
/// Eigen 3.4's divide and conquer loses half of the digits where singular values are equal.
std::optional<SingularValues> decompose(const Matrix& a, bool full) {
  const Index rows = a.rows(), n = a.cols(), width = full ? rows : n;
  const double scale = a.cwiseAbs().maxCoeff();
  if (scale == 0)
    return SingularValues{Matrix::Identity(rows, width), Vector::Zero(n), Matrix::Identity(n, n)};

  Matrix b = a / scale;
  std::optional<Eigen::HouseholderQR<Matrix>> tall;
  if (rows > n) {
    tall.emplace(b);
    b = tall->matrixQR().topRows(n).triangularView<Eigen::Upper>();
  }
  const Eigen::SelfAdjointEigenSolver<Matrix> nearly(b.transpose() * b);
  if (nearly.info() != Eigen::Success) return std::nullopt;
  Matrix v = nearly.eigenvectors();
  b = b * v;
  if (!orthogonalize(b, v)) return std::nullopt;

  const Vector norms = b.colwise().norm();
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index i, Index j) { return norms[i] > norms[j]; });
  // Householder's reflections make an orthonormal basis of them, where columns are 0 too.
  const Eigen::HouseholderQR<Matrix> basis(Matrix(b(Eigen::all, order)));
  Matrix u = basis.householderQ();
  for (Index j = 0; j < n; ++j)
    if (basis.matrixQR()(j, j) < 0) u.col(j) = -u.col(j);
  if (tall) {
    Matrix wide = Matrix::Identity(rows, width);
    wide.topLeftCorner(n, n) = u;
    u = tall->householderQ() * wide;
  }
  return SingularValues{std::move(u), norms(order) * scale, v(Eigen::all, order)};
}

}  // namespace

void cholesky(const Stream& stream, const char* op, const View& out, const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    if (rows_of(in) == 0) return write(out, i, Matrix());
    const Eigen::LLT<Matrix> factor(read(in, i));
    const Matrix lower = factor.matrixL();
    // Eigen takes any pivot that is not 0 or less, and thus NaN.
    FERRITE_CHECK(factor.info() == Eigen::Success && lower.diagonal().allFinite(), ValueError, op,
                  "matrix {} of the batch is not positive definite", i);
    write(out, i, lower);
  });
}

void solve(const Stream& stream, const char* op, const View& out, const View& a, const View& b) {
  for_each_matrix(stream, op, a, [=](std::int64_t i) {
    if (out.numel == 0) return;
    const auto check_pivots = [&](const auto& pivots) {
      FERRITE_CHECK((pivots.array() != 0).all(), ValueError, op,
                    "matrix {} of the batch is singular", i);
    };
    const Matrix m = read(a, i);
    // Factors of other functions are often what is solved, and substitution takes columns(b) / n
    // of the time that an LU decomposition does.
    const bool upper = has_zeros(m, true), lower = !upper && has_zeros(m, false);
    if (upper || lower) {
      check_pivots(m.diagonal());
      const Matrix right = read(b, i);
      write(out, i,
            upper ? Matrix(m.triangularView<Eigen::Upper>().solve(right))
                  : Matrix(m.triangularView<Eigen::Lower>().solve(right)));
      return;
    }
    const Eigen::PartialPivLU<Matrix> factor(m);
    check_pivots(factor.matrixLU().diagonal());
    write(out, i, factor.solve(read(b, i)));
  });
}

void slogdet(const Stream& stream, const char* op, const View& sign, const View& log,
             const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    double sign_of = 1, log_of = 0;
    if (rows_of(in) > 0) {
      const Eigen::PartialPivLU<Matrix> factor(read(in, i));
      sign_of = factor.permutationP().determinant() > 0 ? 1 : -1;
      for (const double pivot : factor.matrixLU().diagonal()) {
        sign_of *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // NaN stays
        log_of += std::log(std::abs(pivot));
      }
    }
    write(sign, i, sign_of);
    write(log, i, log_of);
  });
}

void qr(const Stream& stream, const char* op, const View& q, const View& r, const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    const Index k = columns_of(q);
    if (in.numel == 0) {  // there is nothing to reflect
      write(q, i, Matrix::Identity(rows_of(q), k));
      return;
    }
    const Eigen::HouseholderQR<Matrix> factor(read(in, i));
    write(q, i, factor.householderQ() * Matrix::Identity(rows_of(in), k));
    write(r, i, factor.matrixQR().topRows(k).triangularView<Eigen::Upper>());
  });
}

void eigh(const Stream& stream, const char* op, const View& values, const View& vectors,
          const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    if (in.numel == 0) return;
    const Matrix m = read(in, i);
    check_finite(m, op, i);
    const Eigen::SelfAdjointEigenSolver<Matrix> factor(m);
    FERRITE_CHECK(factor.info() == Eigen::Success, ValueError, op,
                  "the eigenvalues of matrix {} of the batch did not converge", i);
    write(values, i, Matrix(factor.eigenvalues()));
    write(vectors, i, factor.eigenvectors());
  });
}

void svd(const Stream& stream, const char* op, const View& u, const View& s, const View& vh,
         const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    if (in.numel == 0) {
      write(u, i, Matrix::Identity(rows_of(u), columns_of(u)));
      write(vh, i, Matrix::Identity(rows_of(vh), columns_of(vh)));
      return;
    }
    const Matrix m = read(in, i);
    check_finite(m, op, i);
    const bool full = columns_of(u) > rows_of(s) || rows_of(vh) > rows_of(s);
    const bool wide = m.rows() < m.cols();
    std::optional<SingularValues> factors =
        wide ? decompose(m.transpose(), full) : decompose(m, full);
    FERRITE_CHECK(factors, ValueError, op,
                  "the singular values of matrix {} of the batch did not converge", i);
    if (wide) std::swap(factors->u, factors->v);
    write(u, i, factors->u);
    write(s, i, Matrix(factors->s));
    write(vh, i, factors->v.transpose());
  });
}

}  // namespace ferrite::kernels
