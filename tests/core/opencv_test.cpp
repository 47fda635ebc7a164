#include <doctest/doctest.h>

#if __has_include(<opencv2/core.hpp>)

#include "ferrite/core/opencv.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/support/message.h"

namespace ferrite::test {

TEST_CASE("opencv: a tensor shares an image's memory and ownership") {
  cv::Mat image(2, 3, CV_8UC3);
  for (int i = 0; i < 18; ++i) image.data[i] = static_cast<unsigned char>(i);
  Tensor t = from_mat(image);
  CHECK(t.shape() == Shape{2, 3, 3});
  CHECK(t.dtype() == kUInt8);
  CHECK(t.data_ptr() == image.data);
  CHECK(t.is_contiguous());
  image = cv::Mat();
  CHECK(t.to_vector<int>()[17] == 17);

  // A region: its rows are apart.
  cv::Mat whole = cv::Mat::ones(4, 5, CV_32F);
  whole.at<float>(2, 3) = 7;
  const Tensor region = from_mat(whole(cv::Rect(2, 1, 2, 2)));
  CHECK(region.shape() == Shape{2, 2});
  CHECK(region.strides() == Strides{5, 1});
  CHECK(region.to_vector<float>() == std::vector<float>{1, 1, 1, 7});
  CHECK(from_mat(cv::Mat(0, 3, CV_8U)).shape() == Shape{0, 3});
  const cv::Mat row = cv::Mat::ones(3, 1, CV_64FC2);
  CHECK(from_mat(row).shape() == Shape{3, 1, 2});
}

TEST_CASE("opencv: an image shares a tensor's memory") {
  const Tensor t = from_vector<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2});
  const cv::Mat mat = as_mat(t);
  CHECK(mat.rows == 2);
  CHECK(mat.cols == 3);
  CHECK(mat.type() == CV_32FC2);
  CHECK(mat.data == t.data_ptr());
  CHECK(mat.at<cv::Vec2f>(1, 2)[1] == 12);
  CHECK(from_mat(mat).to_vector<float>() == t.to_vector<float>());

  const cv::Mat part = as_mat(geometry::as_strided(t, {2, 2}, {6, 1}, 2));  // rows apart
  CHECK(part.type() == CV_32FC1);
  CHECK(part.step[0] == 24);
  CHECK(part.at<float>(1, 1) == 10);
  CHECK(as_mat(empty({0, 3})).empty());
  for (const DType dtype : {kUInt8, kInt8, kInt16, kInt32, kFloat32, kFloat64, kFloat16}) {
    const Tensor pixels = empty({2, 2, 3}, {.dtype = dtype});
    CHECK(from_mat(as_mat(pixels)).dtype() == dtype);
  }
}

TEST_CASE("opencv: errors") {
  CHECK_THROWS_AS(from_mat(cv::Mat(1, 1, CV_16U)), DTypeError);
  const int sizes[] = {2, 2, 2};
  CHECK_THROWS_AS(from_mat(cv::Mat(3, sizes, CV_8U)), ShapeError);
  CHECK_THROWS_AS(as_mat(Tensor()), ValueError);
  CHECK_THROWS_AS(as_mat(empty({2})), ShapeError);
  CHECK_THROWS_AS(as_mat(empty({2, 2, 513})), ShapeError);
  CHECK_THROWS_AS(as_mat(empty({2, 2}, {.dtype = kInt64})), DTypeError);
  const Tensor planes = empty({3, 4, 5});
  CHECK(contains(message_of<ValueError>([&] {
                   as_mat(geometry::as_strided(planes, {4, 5, 3}, {5, 1, 20}, 0));
                 }),
                 "use .contiguous()"));
}

}  // namespace ferrite::test

#else

TEST_CASE("opencv: a tensor shares an image's memory and ownership") {
  MESSAGE("skipped: there is no opencv2/core.hpp (package libopencv-core-dev)");
}

#endif
