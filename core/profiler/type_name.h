// Human-readable names of types.
#pragma once

#include <string>
#include <typeinfo>

namespace ferrite::profiler::detail {

/// Without namespaces and template arguments: "Conv2d".
std::string type_name(const std::type_info& type);

}  // namespace ferrite::profiler::detail
