#include "ferrite/kernels/parts.h"

#include "ferrite/kernels/cpu/parts.h"
#include "ferrite/kernels/cuda/parts.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void copy_parts(const Stream& stream, const std::vector<CopyPart>& parts) {
  if (parts.empty()) return;
  launch(
      stream, "copy_parts", [=] { cpu::copy_parts(parts); },
      [&] { cuda::copy_parts(stream, parts); });
}

void sum_parts(const Stream& stream, DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  FERRITE_CHECK(dtype != kBool, DTypeError, "sum_parts", "expected numbers to add, got bool");
  if (parts.empty()) return;
  launch(
      stream, "sum_parts", [=] { cpu::sum_parts(dtype, parts, inputs); },
      [&] { cuda::sum_parts(stream, dtype, parts, inputs); });
}

}  // namespace ferrite::kernels
