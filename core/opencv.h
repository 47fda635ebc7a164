// Tensors as images of OpenCV and back, without a copy. Ferrite itself does not need OpenCV; a
// program that includes this header must have it.
//
//   Tensor image = from_mat(cv::imread("cat.png"));        // uint8 [H, W, 3], in BGR order
//   Tensor input = image.flip({2}).permute({2, 0, 1});     // [3, H, W], RGB
//   cv::Mat shown = as_mat(mask);                          // mask: [H, W] or [H, W, channels]
#pragma once

#include <climits>
#include <opencv2/core.hpp>

#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

namespace detail {
struct MatType {
  int depth;
  DType dtype;
};
inline constexpr MatType kMatTypes[] = {{CV_8U, kUInt8},   {CV_8S, kInt8},     {CV_16S, kInt16},
                                        {CV_32S, kInt32},  {CV_32F, kFloat32}, {CV_64F, kFloat64},
                                        {CV_16F, kFloat16}};
}  // namespace detail

/// A tensor [H, W], or [H, W, channels] if there are several, over the memory of a matrix of two
/// dimensions. The tensor shares its ownership, if the matrix has it (not of a user's memory, which
/// must outlive the tensor), and its rows may be apart, as those of a region are. DTypeError for
/// types that Ferrite lacks, such as CV_16U; ShapeError for other numbers of dimensions.
inline Tensor from_mat(const cv::Mat& mat) {
  FERRITE_CHECK(mat.dims <= 2, ShapeError, "from_mat",
                "expected a matrix of two dimensions, got {}", mat.dims);
  for (const detail::MatType& type : detail::kMatTypes) {
    if (type.depth != mat.depth()) continue;
    const std::int64_t rows = mat.rows, columns = mat.cols, channels = mat.channels();
    const Shape shape = channels == 1 ? Shape{rows, columns} : Shape{rows, columns, channels};
    if (mat.empty()) return empty(shape, {.dtype = type.dtype, .device = kCPU});
    const std::int64_t step =
        static_cast<std::int64_t>(mat.step[0] / itemsize(type.dtype));  // of a row, in elements
    const std::int64_t extent = (rows - 1) * step + columns * channels;
    const Tensor all = from_blob(mat.data, {extent}, type.dtype, [keep = mat] {});
    return as_strided(all, shape, channels == 1 ? Strides{step, 1} : Strides{step, channels, 1}, 0,
                      type.dtype);
  }
  fail<DTypeError>("from_mat",
                   "there is no element type for OpenCV's depth {}; convert the matrix by "
                   "convertTo(other, CV_32F)",
                   mat.depth());
}

/// A matrix over the memory of a CPU tensor [H, W] or [H, W, channels], which must outlive it and
/// whose pixels must be dense; rows may be apart. DTypeError for int64, bool and bfloat16, which
/// OpenCV lacks; ShapeError, ValueError, DeviceError.
inline cv::Mat as_mat(const Tensor& tensor) {
  constexpr const char* kOp = "as_mat";
  FERRITE_CHECK(tensor.defined(), ValueError, kOp, "the tensor is undefined");
  FERRITE_CHECK(tensor.device().is_cpu(), DeviceError, kOp,
                "expected a tensor on the CPU, got one on {}; move it with .cpu()",
                tensor.device());
  const bool flat = tensor.dim() == 2;
  FERRITE_CHECK(flat || tensor.dim() == 3, ShapeError, kOp,
                "expected [H, W] or [H, W, channels], got {}", tensor.shape());
  const std::int64_t channels = flat ? 1 : tensor.size(2);
  FERRITE_CHECK(channels >= 1 && channels <= CV_CN_MAX && tensor.size(0) <= INT_MAX &&
                    tensor.size(1) <= INT_MAX,
                ShapeError, kOp, "expected 1 to {} channels of at most {} x {}, got {}", CV_CN_MAX,
                INT_MAX, INT_MAX, tensor.shape());
  const Strides& strides = tensor.strides();
  const bool dense = (flat || channels == 1 || strides[2] == 1) &&
                     (tensor.size(1) <= 1 || strides[1] == channels) &&
                     (tensor.size(0) <= 1 || strides[0] >= tensor.size(1) * channels);
  FERRITE_CHECK(dense, ValueError, kOp,
                "expected dense rows, got {} with strides {}; use .contiguous()", tensor.shape(),
                strides);
  for (const detail::MatType& type : detail::kMatTypes) {
    if (type.dtype != tensor.dtype()) continue;
    synchronize(tensor.device());
    const std::size_t step = tensor.size(0) <= 1
                                 ? static_cast<std::size_t>(cv::Mat::AUTO_STEP)
                                 : static_cast<std::size_t>(strides[0]) * itemsize(tensor.dtype());
    return {static_cast<int>(tensor.size(0)), static_cast<int>(tensor.size(1)),
            CV_MAKETYPE(type.depth, static_cast<int>(channels)), tensor.data_ptr(), step};
  }
  fail<DTypeError>(kOp, "OpenCV has no {}; convert the tensor to int32, uint8 or float32",
                   tensor.dtype());
}

}  // namespace ferrite
