// Instead of data/onnx, in a build without the component onnx.
#include "ferrite/data/onnx/onnx_tensors.h"

namespace ferrite::data {

OnnxContents read_onnx_contents(const std::filesystem::path& path) {
  fail<IoError>("read_onnx",
                "'{}': this build of Ferrite has no component onnx; install libonnx-dev and "
                "libprotobuf-dev and build it again",
                path.string());
}

OnnxContents read_onnx_contents(Bytes) {
  return read_onnx_contents(std::filesystem::path("memory"));
}

}  // namespace ferrite::data
