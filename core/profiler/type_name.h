// Human-readable names of types.
#pragma once

#include <string>
#include <typeinfo>

namespace ferrite::profiler::detail {

/// The function or type that a compiler's symbol names; the symbol itself if it is none.
std::string demangled(const char* symbol);
/// Without namespaces and template arguments: "Conv2d".
std::string type_name(const std::type_info& type);

}  // namespace ferrite::profiler::detail
