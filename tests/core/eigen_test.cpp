#include "ferrite/core/eigen.h"

#include <doctest/doctest.h>

#include "ferrite/core/views.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("eigen: a map shares a tensor's memory, row-major") {
  const Tensor t = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  auto map = eigen_map<float>(t);
  static_assert(decltype(map)::IsRowMajor);
  CHECK(map.data() == t.data<float>());
  CHECK(map.rows() == 2);
  CHECK(map.cols() == 3);
  CHECK(map(1, 0) == 4);
  const Eigen::VectorXf product = map * Eigen::Vector3f(1, 10, 100);
  CHECK(product(0) == 321);
  CHECK(product(1) == 654);
  map(0, 2) = 9;
  CHECK(t.to_vector<float>()[2] == 9);
  CHECK(eigen_vector<float>(t).sum() == 27);
  CHECK(eigen_vector<std::int64_t>(from_vector<std::int64_t>({7}, {})).sum() == 7);
  CHECK(eigen_map<float>(empty({0, 3})).size() == 0);
  CHECK(eigen_map<float>(geometry::as_strided(t, {1, 2}, {3, 1}, 4))(0, 1) == 6);  // a part
}

TEST_CASE("eigen: a tensor shares a matrix's memory, in both orders") {
  Eigen::MatrixXd columns(2, 3);
  columns << 1, 2, 3, 4, 5, 6;
  const Tensor a = from_eigen(columns);
  CHECK(a.shape() == Shape{2, 3});
  CHECK(a.strides() == Strides{1, 2});
  CHECK(a.dtype() == kFloat64);
  CHECK(a.to_vector<double>() == std::vector<double>{1, 2, 3, 4, 5, 6});
  columns(1, 1) = 50;
  CHECK(a.to_vector<double>()[4] == 50);

  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows =
      columns.cast<float>();
  const Tensor b = from_eigen(rows);
  CHECK(b.is_contiguous());
  CHECK(b.data<float>() == rows.data());
  CHECK(eigen_map<float>(b) == rows);

  Eigen::Vector3i fixed(1, 2, 3);
  CHECK(from_eigen(fixed).shape() == Shape{3, 1});
  Eigen::MatrixXf nothing(0, 4);
  CHECK(from_eigen(nothing).shape() == Shape{0, 4});

  // Moved in, it lives with the tensor.
  Tensor owner = from_eigen(Eigen::MatrixXd(Eigen::MatrixXd::Constant(100, 100, 2)));
  const Tensor part = geometry::as_strided(owner, {3}, {100}, 7);
  owner = {};
  CHECK(part.to_vector<double>() == std::vector<double>{2, 2, 2});
}

TEST_CASE("eigen: errors") {
  const Tensor t = from_vector<float>({1, 2, 3, 4}, {2, 2});
  CHECK_THROWS_AS(eigen_map<float>(Tensor()), ValueError);
  CHECK_THROWS_AS(eigen_map<double>(t), DTypeError);
  CHECK_THROWS_AS(eigen_map<float>(geometry::as_strided(t, {2, 2}, {1, 2}, 0)), ValueError);
  CHECK(contains(message_of<ShapeError>([&] { eigen_map<float>(from_vector<float>({1}, {1})); }),
                 "expected [rows, cols], got [1]"));
}
