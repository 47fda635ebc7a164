// Maps Ferrite's element types and reductions to NCCL's.
#pragma once

#include <nccl.h>

#include "ferrite/core/dtype.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::nccl {

inline ncclDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::float16:
      return ncclFloat16;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::float64:
      return ncclFloat64;
    case DType::int64:
      return ncclInt64;
    case DType::int32:
      return ncclInt32;
    case DType::uint8:
      return ncclUint8;
    case DType::int8:
      return ncclInt8;
    case DType::int16:
    case DType::boolean:
    case DType::complex64:
    case DType::complex128:
      break;
  }
  fail<DTypeError>("nccl", "cannot send {}", name(dtype));
}

inline ncclRedOp_t reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  fail<ValueError>("nccl", "there is no such reduction");
}

}  // namespace ferrite::parallel::nccl
