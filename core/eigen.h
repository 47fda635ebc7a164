// Tensors as matrices of Eigen and back, without a copy. Ferrite itself does not need Eigen; a
// program that includes this header must have it.
//
//   auto w = eigen_map<float>(linear.weight);           // [rows, cols]; writes change the tensor
//   Eigen::VectorXf y = w * eigen_vector<float>(x);
//   Tensor t = from_eigen(matrix);                      // shares the matrix's memory
#pragma once

#include <Eigen/Core>
#include <functional>
#include <memory>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Eigen's view of a tensor's memory as a matrix.
template <class T>
using EigenMatrixMap =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
/// Eigen's view of a tensor's memory as a vector.
template <class T>
using EigenVectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

namespace detail {
/// The elements of a contiguous CPU tensor of type T, once they are computed.
template <class T>
T* eigen_data(const Tensor& tensor, const char* op) {
  FERRITE_CHECK(tensor.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(tensor.device().is_cpu(), DeviceError, op,
                "expected a tensor on the CPU, got one on {}; move it with .cpu()",
                tensor.device());
  FERRITE_CHECK(tensor.is_contiguous(), ValueError, op,
                "expected a contiguous tensor, got {} with strides {}; use .contiguous()",
                tensor.shape(), tensor.strides());
  synchronize(tensor.device());
  return tensor.data<T>();  // DTypeError for another type
}

template <class Derived>
Tensor eigen_tensor(Eigen::PlainObjectBase<Derived>& matrix, std::function<void()> deleter) {
  constexpr DType kType = DTypeOf<typename Derived::Scalar>::value;
  const Shape shape = {matrix.rows(), matrix.cols()};
  if (Derived::IsRowMajor || matrix.size() == 0)
    return from_blob(matrix.data(), shape, kType, std::move(deleter));
  return as_strided(from_blob(matrix.data(), {matrix.size()}, kType, std::move(deleter)), shape,
                    {1, matrix.rows()}, 0, kType);
}
}  // namespace detail

/// A contiguous CPU tensor [rows, cols] of element type T. It shares the memory, which the tensor
/// must keep alive; writing through it is not recorded for gradients. ShapeError for other numbers
/// of dimensions; ValueError, DTypeError, DeviceError.
template <class T>
EigenMatrixMap<T> eigen_map(const Tensor& tensor) {
  T* const data = detail::eigen_data<T>(tensor, "eigen_map");
  FERRITE_CHECK(tensor.dim() == 2, ShapeError, "eigen_map", "expected [rows, cols], got {}",
                tensor.shape());
  return {data, tensor.size(0), tensor.size(1)};
}

/// All elements of a contiguous CPU tensor of any shape, as a column.
template <class T>
EigenVectorMap<T> eigen_vector(const Tensor& tensor) {
  return {detail::eigen_data<T>(tensor, "eigen_vector"), tensor.numel()};
}

/// A tensor [rows, cols] over the memory of a matrix or vector, which must outlive it; column-major
/// ones have the strides {1, rows}.
template <class Derived>
Tensor from_eigen(Eigen::PlainObjectBase<Derived>& matrix) {
  return detail::eigen_tensor(matrix, {});
}
/// The same, with the matrix moved into the tensor's memory.
template <class T, int kRows, int kColumns, int kOptions>
Tensor from_eigen(Eigen::Matrix<T, kRows, kColumns, kOptions>&& matrix) {
  const auto kept =
      std::make_shared<Eigen::Matrix<T, kRows, kColumns, kOptions>>(std::move(matrix));
  return detail::eigen_tensor(*kept, [kept] {});
}

}  // namespace ferrite
