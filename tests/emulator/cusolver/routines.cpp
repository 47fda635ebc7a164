#include "ferrite/tests/emulator/cusolver/routines.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <cmath>
#include <limits>
#include <memory>

namespace ferrite::emulator::solver {

Columns vector(const void* data, std::int64_t size, cudaDataType type) {
  return {const_cast<void*>(data), size, 1, std::max<std::int64_t>(1, size), type};
}

bool enqueue(cudaStream_t stream, std::function<void()> work) {
  auto call = std::make_unique<std::function<void()>>(std::move(work));
  const auto run = [](void* data) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
    (*owned)();
  };
  if (cudaLaunchHostFunc(stream, run, call.get()) != cudaSuccess) return false;
  call.release();
  return true;
}

int potrf(const Columns& a) {
  Matrix u = a.read_upper();
  for (Index j = 0; j < a.rows; ++j) {
    const double rest = u(j, j) - u.col(j).head(j).squaredNorm();
    if (!(rest > 0)) return static_cast<int>(j) + 1;
    u(j, j) = std::sqrt(rest);
    for (Index c = j + 1; c < a.rows; ++c)
      u(j, c) = (u(j, c) - u.col(j).head(j).dot(u.col(c).head(j))) / u(j, j);
  }
  for (Index c = 0; c < a.rows; ++c)
    for (Index r = 0; r <= c; ++r) a.set(r, c, u(r, c));
  return 0;
}

template <class Pivot>
int getrf(const Columns& a, Pivot* pivots) {
  Matrix m = a.read();
  int info = 0;
  for (Index j = 0; j < a.rows; ++j) {
    Index pivot = 0;
    m.col(j).tail(a.rows - j).cwiseAbs().maxCoeff(&pivot);
    pivot += j;
    pivots[j] = static_cast<Pivot>(pivot + 1);
    m.row(j).swap(m.row(pivot));
    if (m(j, j) == 0) {
      if (info == 0) info = static_cast<int>(j) + 1;
      continue;
    }
    const Index rest = a.rows - j - 1;
    m.col(j).tail(rest) /= m(j, j);
    m.bottomRightCorner(rest, rest).noalias() -= m.col(j).tail(rest) * m.row(j).tail(rest);
  }
  a.write(m);
  return info;
}

template <class Pivot>
int getrs(const Columns& a, const Pivot* pivots, const Columns& b) {
  const Matrix factors = a.read();
  Matrix x = b.read();
  for (Index j = 0; j < a.rows; ++j) x.row(j).swap(x.row(pivots[j] - 1));
  factors.triangularView<Eigen::UnitLower>().solveInPlace(x);
  factors.triangularView<Eigen::Upper>().solveInPlace(x);
  b.write(x);
  return 0;
}

template int getrf(const Columns&, std::int64_t*);
template int getrf(const Columns&, int*);
template int getrs(const Columns&, const std::int64_t*, const Columns&);
template int getrs(const Columns&, const int*, const Columns&);

int geqrf(const Columns& a, const Columns& tau) {
  const Eigen::HouseholderQR<Matrix> factor(a.read());
  a.write(factor.matrixQR());
  tau.write(factor.hCoeffs());
  return 0;
}

int orgqr(const Columns& a, const Columns& tau) {
  const Matrix reflectors = a.read().leftCols(tau.rows);
  const Eigen::VectorXd factors = tau.read();
  a.write(Eigen::householderSequence(reflectors, factors) * Matrix::Identity(a.rows, a.columns));
  return 0;
}

int syevd(const Columns& a, const Columns& values) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(a.read_upper());
  if (solver.info() != Eigen::Success) return 1;
  a.write(solver.eigenvectors());
  values.write(solver.eigenvalues());
  return 0;
}

int gesvd(const Columns& a, const Columns& u, const Columns& s, const Columns& vt) {
  const Eigen::JacobiSVD<Matrix> factor(
      a.read(),
      Eigen::ComputeFullV | (u.columns == u.rows ? Eigen::ComputeFullU : Eigen::ComputeThinU));
  u.write(factor.matrixU());
  s.write(factor.singularValues());
  vt.write(factor.matrixV().transpose());
  a.write(Matrix::Constant(a.rows, a.columns, std::numeric_limits<double>::quiet_NaN()));
  return 0;
}

int gesvdj(const Columns& a, const Columns& u, const Columns& s, const Columns& v) {
  const Matrix matrix = a.read();
  const Eigen::JacobiSVD<Matrix> factor(matrix, Eigen::ComputeFullU | Eigen::ComputeFullV);
  a.write(Matrix::Constant(a.rows, a.columns, std::numeric_limits<double>::quiet_NaN()));
  if (matrix.cwiseAbs().maxCoeff() > 1e30)
    return static_cast<int>(std::min(a.rows, a.columns)) + 1;  // as cuSOLVER says it
  u.write(factor.matrixU());
  s.write(factor.singularValues());
  v.write(factor.matrixV());
  return 0;
}

}  // namespace ferrite::emulator::solver
