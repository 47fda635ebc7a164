// cuDNN's graph API, through its C interface. The library is loaded when it is first asked for, so
// that programs start where it is not, and do not pay for it where they do not convolve.
#pragma once

#include <cudnn_graph.h>

#include <string>

namespace ferrite::kernels::cuda::vendor {

/// cuDNN's functions, by their names without the prefix.
struct Cudnn {
  decltype(&::cudnnGetVersion) get_version = nullptr;
  decltype(&::cudnnGetErrorString) error_string = nullptr;
  decltype(&::cudnnGetLastErrorString) last_error_string = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&::cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;

  /// What the last call that failed in this thread says of it.
  std::string last_error() const;
};

/// Null where the library cannot be loaded, and then why_not_loaded() says why.
const Cudnn* cudnn_library();
const std::string& why_not_loaded();

}  // namespace ferrite::kernels::cuda::vendor
