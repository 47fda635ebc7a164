#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/where.h"

namespace ferrite::kernels::cuda {

namespace {

/// Moves elements as words of their size: what they mean does not matter.
struct Choose {
  template <class T>
  __device__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

}  // namespace

void where(const Stream& stream, const View& out, const View& condition, const View& a,
           const View& b) {
  const auto choose = [&]<class Word>() {
    map<Word, bool, Word, Word>(stream, "where", Choose(), out, condition, a, b);
  };
  switch (itemsize(out.dtype)) {
    case 1:
      return choose.template operator()<std::uint8_t>();
    case 2:
      return choose.template operator()<std::uint16_t>();
    case 4:
      return choose.template operator()<std::uint32_t>();
    default:
      return choose.template operator()<std::uint64_t>();
  }
}

}  // namespace ferrite::kernels::cuda
