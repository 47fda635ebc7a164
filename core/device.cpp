#include "ferrite/core/device.h"

#include <fmt/format.h>

#include <charconv>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"

namespace ferrite {

namespace {

constexpr const char* kForms = "expected cpu, cpu:N, cuda or cuda:N with N from 0 to 63";

}  // namespace

Device::Device(DeviceType type, int index) : type_(type), index_(static_cast<std::int8_t>(index)) {
  FERRITE_CHECK(index >= -1 && index <= kMaxIndex, DeviceError, "device",
                "index {} is out of range; {}", index, kForms);
  FERRITE_CHECK(!is_cuda() || cuda::is_available(), DeviceError, "device",
                "cuda was asked for, but no CUDA device is available; use \"cpu\"");
  if (is_cuda() && index < 0) index_ = static_cast<std::int8_t>(detail::cuda::current_device());
  FERRITE_CHECK(!is_cuda() || index_ < cuda::device_count(), DeviceError, "device",
                "cuda:{} was asked for, but there are {} CUDA devices", index,
                cuda::device_count());
}

Device::Device(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  int index = -1;
  bool good = kind == "cpu" || kind == "cuda";
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    good = good && ec == std::errc() && end == digits.data() + digits.size() && index >= 0;
  }
  FERRITE_CHECK(good && index <= kMaxIndex, DeviceError, "device", "cannot read '{}'; {}", text,
                kForms);
  *this = Device(kind == "cuda" ? DeviceType::cuda : DeviceType::cpu, index);
}

std::string Device::str() const {
  std::string text = is_cuda() ? "cuda" : "cpu";
  if (index_ >= 0) text.append(":").append(std::to_string(index_));
  return text;
}

}  // namespace ferrite

fmt::format_context::iterator fmt::formatter<ferrite::Device>::format(
    const ferrite::Device& value, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", value.str());
}
