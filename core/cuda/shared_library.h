// A library of a vendor, loaded when it is first asked for: programs start where it is not, and do
// not pay for it (cuBLASLt takes a tenth of a second) where they do not use it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace ferrite::cuda {

class SharedLibrary {
 public:
  /// Looks in `folder`, where the build has found it, then wherever the system's loader does.
  SharedLibrary(const std::string& folder, const std::string& name) : name_(name) {
    if (!folder.empty()) handle_ = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    const char* const error = dlerror();
    why_not_ = error ? error : name + " was not found";
  }

  /// Sets `function`, a pointer, to the function of that name.
  template <class F>
  void find(F& function, const char* name) {
    if (!handle_) return;
    function = reinterpret_cast<F>(dlsym(handle_, name));
    if (!function && why_not_.empty()) why_not_ = name_ + " has no " + name;
  }

  /// Whether it was loaded, with all that was looked for.
  bool is_complete() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }

 private:
  std::string name_, why_not_;
  void* handle_ = nullptr;
};

}  // namespace ferrite::cuda
