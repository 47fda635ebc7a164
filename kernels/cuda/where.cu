#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/where.h"

namespace ferrite::kernels::cuda {

namespace {

struct Choose {
  template <class T>
  __device__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

}  // namespace

void where(const Stream& stream, const View& out, const View& condition, const View& a,
           const View& b) {
  dispatch_words(out.dtype, [&]<class Word>() {
    map<Word, bool, Word, Word>(stream, "where", Choose(), out, condition, a, b);
  });
}

}  // namespace ferrite::kernels::cuda
