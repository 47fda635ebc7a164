// Splits inputs over devices (torch.nn.parallel.scatter).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/nested.h"

namespace ferrite::parallel {

/// Splits `tensor` in chunks of ceil(size / devices) along `dim`, chunk i on devices[i]: 30 over 4
/// devices is 8, 8, 8, 6. There are fewer chunks than devices where torch.chunk makes fewer: 5 over
/// 4 is 2, 2, 1; 0 is one empty chunk. A 0-dimensional tensor does not split: every device gets a
/// copy. A chunk on the tensor's device is a view, or the tensor itself if it is all of it. The
/// copies run concurrently with the devices' work, on separate streams, and the current streams of
/// the devices wait for them; the host waits only for copies of memory that is not pinned.
/// Differentiable any number of times: the gradient is gathered to the tensor's device. IndexError
/// for a `dim` out of range, ValueError if there is no device. A device may be named twice.
std::vector<Tensor> scatter(const Tensor& tensor, std::span<const Device> devices, int dim = 0);
/// `scatter(x, {"cuda:0", "cuda:1"})`
inline std::vector<Tensor> scatter(const Tensor& tensor, std::initializer_list<Device> devices,
                                   int dim = 0) {
  return scatter(tensor, std::span(devices.begin(), devices.size()), dim);
}

namespace detail {

/// Sizes of the chunks that `size` is split into: at most `chunks`, at least one.
std::vector<std::int64_t> chunk_sizes(std::int64_t size, std::size_t chunks);
/// Several tensors at once, as one value: result[i] has the part of each for devices[i].
std::vector<std::vector<Tensor>> scatter_tensors(std::span<const Tensor> tensors,
                                                 std::span<const Device> devices, int dim);
/// Chunks of the given sizes along `dim`, which is not negative; chunks not in `wanted` (empty:
/// all) are undefined.
std::vector<Tensor> scatter_sizes(const Tensor& tensor, std::span<const Device> devices,
                                  std::span<const std::int64_t> sizes, int dim,
                                  const std::vector<bool>& wanted = {});

}  // namespace detail

/// Any value (nested.h), tensor by tensor. All tensors that split must give the same number of
/// chunks (ShapeError, naming both); 0-dimensional tensors and other data go to every device. A
/// value in which nothing splits gives one chunk per device.
template <class T>
std::vector<T> scatter(const T& value, std::span<const Device> devices, int dim = 0) {
  std::vector<T> chunks;
  for (const std::vector<Tensor>& tensors :
       detail::scatter_tensors(tensors_in(value), devices, dim))
    chunks.push_back(with_tensors(value, tensors));
  return chunks;
}

}  // namespace ferrite::parallel
