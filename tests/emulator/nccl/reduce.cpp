#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ferrite/tests/emulator/nccl/clique.h"

namespace emulator::nccl {

namespace {

/// The type of the computation for T: integers wrap around.
template <class T>
struct Arithmetic {
  using Type = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
};
template <>
struct Arithmetic<__half> {
  using Type = float;
};
template <>
struct Arithmetic<__nv_bfloat16> {
  using Type = float;
};

template <class T>
T rounded(typename Arithmetic<T>::Type x) {
  return static_cast<T>(x);
}
template <>
__half rounded<__half>(float x) {
  return __float2half(x);
}
template <>
__nv_bfloat16 rounded<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}

template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(x);
  else
    return x;
}

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  using A = typename Arithmetic<T>::Type;
  switch (op) {
    case ncclProd:
      return rounded<T>(static_cast<A>(wide(a)) * static_cast<A>(wide(b)));
    case ncclMin:
      return wide(b) < wide(a) ? b : a;
    case ncclMax:
      return wide(b) > wide(a) ? b : a;
    default:
      return rounded<T>(static_cast<A>(wide(a)) + static_cast<A>(wide(b)));
  }
}

template <class T>
void reduce_as(const std::vector<const void*>& in, void* out, std::size_t count, ncclRedOp_t op) {
  using A = typename Arithmetic<T>::Type;
  std::vector<T> sum(count), more(count);
  // 1 / n is rounded to the type too.
  const T scale = rounded<T>(A(1) / static_cast<A>(in.size()));
  for (std::size_t rank = 0; rank < in.size(); ++rank) {
    std::vector<T>& values = rank == 0 ? sum : more;
    std::memcpy(static_cast<void*>(values.data()), in[rank], count * sizeof(T));
    if (op == ncclAvg)
      for (T& x : values) x = combine(x, scale, ncclProd);
    if (rank > 0)
      for (std::size_t i = 0; i < count; ++i) sum[i] = combine(sum[i], more[i], op);
  }
  std::memcpy(out, static_cast<const void*>(sum.data()), count * sizeof(T));
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void reduce(const std::vector<const void*>& in, void* out, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce_as<std::int8_t>(in, out, count, op);
    case ncclUint8:
      return reduce_as<std::uint8_t>(in, out, count, op);
    case ncclInt32:
      return reduce_as<std::int32_t>(in, out, count, op);
    case ncclUint32:
      return reduce_as<std::uint32_t>(in, out, count, op);
    case ncclInt64:
      return reduce_as<std::int64_t>(in, out, count, op);
    case ncclUint64:
      return reduce_as<std::uint64_t>(in, out, count, op);
    case ncclFloat16:
      return reduce_as<__half>(in, out, count, op);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16>(in, out, count, op);
    case ncclFloat32:
      return reduce_as<float>(in, out, count, op);
    default:
      return reduce_as<double>(in, out, count, op);
  }
}

}  // namespace emulator::nccl
