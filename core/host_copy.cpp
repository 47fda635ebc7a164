#include "ferrite/core/host_copy.h"

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"

namespace ferrite::detail {

void check_may_read(const Device& device, std::string_view op) {
  if (!device.is_cuda()) return;
  FERRITE_CHECK(!cuda::is_capturing(current_stream(device)), CudaError, op,
                "reads values of {} on the host, which cannot be done while its stream is being "
                "captured into a graph: the work has not begun. Do it before the capture or after "
                "a replay",
                device);
  ferrite::cuda::detail::check_may_wait(op);
}

Tensor readable_on_host(const Tensor& t, std::string_view op) {
  const Stream stream = current_stream(t.device());
  if (t.device().is_cpu()) {
    stream.synchronize();
    return t;
  }
  check_may_read(t.device(), op);
  constexpr std::size_t kLargestPinned = std::size_t{16} << 20;
  std::int64_t reach = t.numel() > 0;
  for (int d = 0; d < t.dim() && reach > 0; ++d) reach += (t.shape()[d] - 1) * t.strides()[d];
  const auto bytes = static_cast<std::size_t>(reach) * t.itemsize();
  const Tensor flat =
      empty({reach}, {.dtype = t.dtype(), .device = kCPU, .pinned = bytes <= kLargestPinned});
  cuda::copy_bytes(stream, flat.data_ptr(), flat.device(), t.data_ptr(), t.device(), bytes);
  stream.synchronize();
  return geometry::as_strided(flat, t.shape(), t.strides(), 0);
}

}  // namespace ferrite::detail
