// Files of ONNX models. This header needs ONNX's and protobuf's, as only sources of the component
// do.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

namespace pb = ::onnx;

/// ONNX's name of a type, or its number if it has none.
std::string onnx_type_name(int number);
/// The numbers by which ONNX calls dtypes. DTypeError, tagged with `op`, for those that Ferrite
/// does not have; `what` says where it stands.
DType dtype_of_onnx(int number, std::string_view op, std::string_view what);
int onnx_dtype(DType dtype);

/// A model as it lies in a file, with the files of weights beside it.
class OnnxFile {
 public:
  /// IoError, tagged with `op`, if the file cannot be read or is no ONNX model: with the position
  /// up to which it could be.
  OnnxFile(const std::filesystem::path& path, std::string_view op);
  /// A model in memory, whose weights lie in it.
  OnnxFile(Bytes bytes, std::string_view op);

  const pb::ModelProto& model() const { return model_; }
  /// The tensor that is described, in memory of its own. IoError: if its data are not as long as
  /// its shape says, or lie in a file that is missing, too short or outside of the model's folder;
  /// or if all tensors so far take more than twice the bytes of that file, which bounds memory.
  /// DTypeError for types that Ferrite does not have.
  Tensor tensor(const pb::TensorProto& tensor) const;

 private:
  void parse(Bytes bytes);
  Bytes external(const pb::TensorProto& tensor) const;

  std::string op_, name_;
  std::filesystem::path folder_;
  pb::ModelProto model_;
  /// A file of weights, and how many of its bytes tensors have taken.
  struct Beside {
    std::unique_ptr<MappedFile> file;
    std::uint64_t taken = 0;
  };
  mutable std::map<std::filesystem::path, Beside> files_;
};

/// A tensor for a file, of a contiguous one on the host (ValueError).
pb::TensorProto onnx_tensor(const std::string& name, const Tensor& tensor);

struct OnnxWriteOptions {
  bool external_data = false;  ///< weights in `path` + ".data"
};
/// Writes the model: complete or not at all. With external data the two files are written and
/// synced before either appears, then renamed one after the other, the data first: if the second
/// rename fails or the process ends between them, the data are new, and the model is the old one or
/// none. A data file that was there before is replaced, never removed. IoError, tagged with `op`;
/// ValueError if the weights are too large for one file (2 GB), and external_data is off.
void write_onnx(pb::ModelProto model, const std::filesystem::path& path,
                const OnnxWriteOptions& options, std::string_view op);

}  // namespace ferrite::data
