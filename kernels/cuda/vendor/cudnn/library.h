// cuDNN's graph API, through its C interface. The library is loaded at its first use, so that
// programs also start without it, and pay for it only if they use convolutions or attention. The
// folder loaded/ loads it; linked/ has the emulator's.
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

  /// cuDNN's message about the last failed call of this thread.
  std::string last_error() const;
};

/// Null if the library cannot be loaded; why_not_loaded() then gives the reason.
const Cudnn* cudnn_library();
const std::string& why_not_loaded();

}  // namespace ferrite::kernels::cuda::vendor
