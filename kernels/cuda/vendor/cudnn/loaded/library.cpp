#include "ferrite/kernels/cuda/vendor/cudnn/library.h"

#include "ferrite/core/cuda/shared_library.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

struct Loaded {
  ferrite::cuda::SharedLibrary library{FERRITE_CUDNN_FOLDER, "libcudnn.so.9"};
  Cudnn functions;

  Loaded() {
    Cudnn& f = functions;
    library.find(f.get_version, "cudnnGetVersion");
    library.find(f.error_string, "cudnnGetErrorString");
    library.find(f.last_error_string, "cudnnGetLastErrorString");
    library.find(f.create, "cudnnCreate");
    library.find(f.set_stream, "cudnnSetStream");
    library.find(f.create_descriptor, "cudnnBackendCreateDescriptor");
    library.find(f.destroy_descriptor, "cudnnBackendDestroyDescriptor");
    library.find(f.finalize, "cudnnBackendFinalize");
    library.find(f.set_attribute, "cudnnBackendSetAttribute");
    library.find(f.get_attribute, "cudnnBackendGetAttribute");
    library.find(f.execute, "cudnnBackendExecute");
  }
};

const Loaded& loaded() {
  static const Loaded& instance = *new Loaded;
  return instance;
}

}  // namespace

const Cudnn* cudnn_library() {
  return loaded().library.is_complete() ? &loaded().functions : nullptr;
}
const std::string& why_not_loaded() { return loaded().library.why_not(); }

}  // namespace ferrite::kernels::cuda::vendor
