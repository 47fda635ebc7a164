// Splitting inputs over devices (torch.nn.parallel.scatter).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/data_parallel/nested.h"

namespace ferrite::parallel {

/// `tensor` in chunks of ceil(size / devices) along `dim`, chunk i on devices[i]: 30 over 4 devices
/// is 8, 8, 8, 6. There are fewer chunks than devices where torch.chunk makes fewer: 5 over 4 is 2,
/// 2, 1; 0 is one empty chunk. A tensor without dimensions does not split: every device gets a
/// copy. A chunk whose device is the tensor's is a view of it, or the tensor itself where it is all
/// of it. The copies run beside the work of the devices, on streams of their own, and the current
/// streams of the devices wait for them; the host waits for nothing but what memory that is not
/// pinned makes it wait for. Differentiable, any number of times: the gradient is gathered to the
/// tensor's device. IndexError for a `dim` that is not there, ValueError where there is no device.
/// A device may be named twice.
std::vector<Tensor> scatter(const Tensor& tensor, std::span<const Device> devices, int dim = 0);

namespace detail {

/// Sizes of the chunks that `size` is split into: at most `chunks`, at least one.
std::vector<std::int64_t> chunk_sizes(std::int64_t size, std::size_t chunks);
/// Several tensors at once, as one value: result[i] is what devices[i] gets of each.
std::vector<std::vector<Tensor>> scatter_tensors(std::span<const Tensor> tensors,
                                                 std::span<const Device> devices, int dim);
/// Chunks of the given sizes along `dim`, which is not negative; those that `wanted`, empty for
/// all, leaves out are undefined.
std::vector<Tensor> scatter_sizes(const Tensor& tensor, std::span<const Device> devices,
                                  std::span<const std::int64_t> sizes, int dim,
                                  const std::vector<bool>& wanted = {});

}  // namespace detail

/// Any value (nested.h), tensor by tensor. All tensors that split must give the same number of
/// chunks (ShapeError, naming both); tensors without dimensions and what is no tensor go to every
/// device. A value in which nothing splits gives one chunk a device.
template <class T>
std::vector<T> scatter(const T& value, std::span<const Device> devices, int dim = 0) {
  std::vector<T> chunks;
  for (const std::vector<Tensor>& tensors :
       detail::scatter_tensors(tensors_in(value), devices, dim))
    chunks.push_back(with_tensors(value, tensors));
  return chunks;
}

}  // namespace ferrite::parallel
