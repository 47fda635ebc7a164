#include <fmt/format.h>

#include "ferrite/kernels/cuda/vendor/cudnn/library.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite {

std::string kernels::cuda::vendor::Cudnn::last_error() const {
  char text[1024] = "";
  last_error_string(text, sizeof text);
  return text;
}

bool cudnn::is_available() { return kernels::cuda::vendor::cudnn_library() != nullptr; }

std::string cudnn::version() {
  const auto* const library = kernels::cuda::vendor::cudnn_library();
  if (!library) return "";
  const std::size_t v = library->get_version();  // 9.1.2 is 90102
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ferrite
