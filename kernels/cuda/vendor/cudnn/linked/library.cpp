#include "ferrite/kernels/cuda/vendor/cudnn/library.h"

#include "ferrite/emulator/emulator.h"

namespace ferrite::kernels::cuda::vendor {

const Cudnn* cudnn_library() {
  static const Cudnn functions{&cudnnGetVersion,
                               &cudnnGetErrorString,
                               &cudnnGetLastErrorString,
                               &cudnnCreate,
                               &cudnnSetStream,
                               &cudnnBackendCreateDescriptor,
                               &cudnnBackendDestroyDescriptor,
                               &cudnnBackendFinalize,
                               &cudnnBackendSetAttribute,
                               &cudnnBackendGetAttribute,
                               &cudnnBackendExecute};
  return emulator::has_cudnn() ? &functions : nullptr;
}

const std::string& why_not_loaded() {
  static const std::string& why = *new std::string("the emulator has one only for its tests");
  return why;
}

}  // namespace ferrite::kernels::cuda::vendor
