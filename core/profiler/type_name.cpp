#include "ferrite/core/profiler/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

std::string ferrite::profiler::detail::demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

std::string ferrite::profiler::detail::type_name(const std::type_info& type) {
  std::string name = demangled(type.name());
  if (name.ends_with('>')) {
    std::size_t at = name.size();
    for (int depth = 0; at > 0 && (at == name.size() || depth > 0);)
      depth += name[--at] == '>' ? 1 : name[at] == '<' ? -1 : 0;
    name.resize(at);
  }
  const std::size_t scope = name.rfind("::");
  return scope == std::string::npos ? name : name.substr(scope + 2);
}
