#include "ferrite/kernels/linalg.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <cmath>
#include <limits>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

namespace {

using Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;
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

}  // namespace

void cholesky(const Stream& stream, const char* op, const View& out, const View& in) {
  for_each_matrix(stream, op, in, [=](std::int64_t i) {
    const Eigen::LLT<Matrix> factor(read(in, i));
    FERRITE_CHECK(factor.info() == Eigen::Success || rows_of(in) == 0, ValueError, op,
                  "matrix {} of the batch is not positive definite", i);
    write(out, i, rows_of(in) == 0 ? Matrix() : Matrix(factor.matrixL()));
  });
}

void solve(const Stream& stream, const char* op, const View& out, const View& a, const View& b) {
  for_each_matrix(stream, op, a, [=](std::int64_t i) {
    if (out.numel == 0) return;
    const Eigen::PartialPivLU<Matrix> factor(read(a, i));
    const auto pivots = factor.matrixLU().diagonal();
    FERRITE_CHECK((pivots.array() != 0).all(), ValueError, op, "matrix {} of the batch is singular",
                  i);
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
    const Eigen::JacobiSVD<Matrix> factor(m, full ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                                  : Eigen::ComputeThinU | Eigen::ComputeThinV);
    write(u, i, factor.matrixU());
    write(s, i, Matrix(factor.singularValues()));
    write(vh, i, factor.matrixV().transpose());
  });
}

}  // namespace ferrite::kernels
