# Finds ONNX's own protobuf description, as compiled C++ (Debian's libonnx-dev), and protobuf's library.
# Defines ONNXProto::ONNXProto, with the macros by which the headers of the package choose their variant.

find_path(ONNXProto_INCLUDE_DIR onnx/onnx_pb.h)
find_library(ONNXProto_LIBRARY NAMES onnx_proto)
find_path(ONNXProto_PROTOBUF_INCLUDE_DIR google/protobuf/message.h)
find_library(ONNXProto_PROTOBUF_LIBRARY NAMES protobuf)
mark_as_advanced(ONNXProto_INCLUDE_DIR ONNXProto_LIBRARY ONNXProto_PROTOBUF_INCLUDE_DIR
                 ONNXProto_PROTOBUF_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNXProto REQUIRED_VARS ONNXProto_LIBRARY ONNXProto_INCLUDE_DIR
                                  ONNXProto_PROTOBUF_LIBRARY ONNXProto_PROTOBUF_INCLUDE_DIR)

if(ONNXProto_FOUND AND NOT TARGET ONNXProto::ONNXProto)
  add_library(ONNXProto::ONNXProto UNKNOWN IMPORTED)
  set_target_properties(ONNXProto::ONNXProto PROPERTIES
    IMPORTED_LOCATION ${ONNXProto_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${ONNXProto_INCLUDE_DIR};${ONNXProto_PROTOBUF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES ${ONNXProto_PROTOBUF_LIBRARY}
    INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx")
endif()
