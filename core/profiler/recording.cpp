#include "ferrite/core/profiler/recording.h"

#include <algorithm>
#include <string_view>

namespace ferrite::profiler {

namespace {
constexpr std::string_view kAccumulateGrad = "accumulate_grad";
}  // namespace

std::uint64_t Recording::peak_memory(const Device& device) const {
  std::uint64_t peak = 0;
  for (const MemoryEvent& e : memory)
    if (e.device == device) {
      const std::int64_t freed = std::max<std::int64_t>(0, -e.bytes);  // allocated before the
                                                                       // recording
      peak = std::max(peak, e.allocated + static_cast<std::uint64_t>(freed));
    }
  return peak;
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::op:
      return "op";
    case Kind::backward:
      return "backward";
    case Kind::kernel:
      return "kernel";
    case Kind::module:
      return "module";
    case Kind::user:
      return "user";
    case Kind::optimizer:
      return "optimizer";
    case Kind::data:
      return "data";
    case Kind::communication:
      return "communication";
  }
  return "";
}

std::string display_name(const char* name, Kind kind) {
  switch (kind) {
    case Kind::op:
    case Kind::user:
      return name;
    case Kind::backward:  // a leaf has no forward op
      return name == kAccumulateGrad ? name : std::string(name) + " backward";
    case Kind::kernel:
      return std::string("kernel::") + name;
    case Kind::module:
      return std::string("nn.") + name;
    case Kind::optimizer:
      return std::string("Optimizer.step#") + name;
    case Kind::data:
      return std::string("DataLoader.") + name;
    case Kind::communication:
      return std::string("comm::") + name;
  }
  return name;
}

}  // namespace ferrite::profiler
