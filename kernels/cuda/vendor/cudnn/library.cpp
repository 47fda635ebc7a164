#include "kernels/cuda/vendor/cudnn/library.h"

#include <dlfcn.h>

namespace ferrite::kernels::cuda::vendor {

namespace {

struct Loaded {
  Cudnn functions;
  bool complete = false;
  std::string why_not;
};

/// Where the build found it first, then wherever the system's loader looks.
void* open_library() {
  constexpr const char* kName = "libcudnn.so.9";
  const std::string folder = FERRITE_CUDNN_FOLDER;
  if (!folder.empty())
    if (void* const library = dlopen((folder + "/" + kName).c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
  return dlopen(kName, RTLD_NOW | RTLD_LOCAL);
}

Loaded load() {
  Loaded loaded;
  void* const library = open_library();
  if (!library) {
    const char* const error = dlerror();
    loaded.why_not = error ? error : "libcudnn.so.9 was not found";
    return loaded;
  }
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function && loaded.why_not.empty())
      loaded.why_not = std::string("libcudnn.so.9 has no ") + name;
  };
  Cudnn& f = loaded.functions;
  find(f.get_version, "cudnnGetVersion");
  find(f.error_string, "cudnnGetErrorString");
  find(f.last_error_string, "cudnnGetLastErrorString");
  find(f.create, "cudnnCreate");
  find(f.set_stream, "cudnnSetStream");
  find(f.create_descriptor, "cudnnBackendCreateDescriptor");
  find(f.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(f.finalize, "cudnnBackendFinalize");
  find(f.set_attribute, "cudnnBackendSetAttribute");
  find(f.get_attribute, "cudnnBackendGetAttribute");
  find(f.execute, "cudnnBackendExecute");
  loaded.complete = loaded.why_not.empty();
  return loaded;
}

const Loaded& loaded() {
  static const Loaded& instance = *new Loaded(load());
  return instance;
}

}  // namespace

const Cudnn* cudnn_library() { return loaded().complete ? &loaded().functions : nullptr; }
const std::string& why_not_loaded() { return loaded().why_not; }

std::string Cudnn::last_error() const {
  char text[1024] = "";
  last_error_string(text, sizeof text);
  return text;
}

}  // namespace ferrite::kernels::cuda::vendor
