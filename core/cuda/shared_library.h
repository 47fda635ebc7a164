// A vendor library, loaded on first use: programs start on machines without it, and programs that
// do not use it do not pay for loading it (a tenth of a second for cuBLASLt).
#pragma once

#include <dlfcn.h>

#include <string>

namespace ferrite::cuda {

class SharedLibrary {
 public:
  /// Looks in `folder`, where the build found the library, then in the system loader's path.
  SharedLibrary(const std::string& folder, const std::string& name) : name_(name) {
    if (!folder.empty()) handle_ = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    const char* const error = dlerror();
    why_not_ = error ? error : name + " was not found";
  }

  /// Sets the function pointer `function` to the symbol of that name.
  template <class F>
  void find(F& function, const char* name) {
    if (!handle_) return;
    function = reinterpret_cast<F>(dlsym(handle_, name));
    if (!function && why_not_.empty()) why_not_ = name_ + " has no " + name;
  }

  /// Whether the library and all requested symbols were found.
  bool is_complete() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }

 private:
  std::string name_, why_not_;
  void* handle_ = nullptr;
};

}  // namespace ferrite::cuda
