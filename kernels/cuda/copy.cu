#include <cstring>

#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

struct Identity {
  template <class Word>
  __device__ Word operator()(Word w) const {
    return w;
  }
};

template <class Word>
struct Constant {
  Word value;
  __device__ Word operator()() const { return value; }
};

bool is_same(const View& out, const View& in) {
  if (out.data != in.data || out.dtype != in.dtype) return false;
  for (int d = 0; d < out.ndim; ++d)
    if (out.sizes[d] != 1 && out.strides[d] != in.strides[d]) return false;
  return true;
}

/// A dtype of twice the size. In this file a dtype stands only for its size.
DType twice(DType dtype) {
  switch (itemsize(dtype)) {
    case 1:
      return kFloat16;
    case 2:
      return kInt32;
    default:
      return kInt64;
  }
}

/// N views of equal sizes, with as few dimensions and as large words as their strides allow.
template <std::size_t N>
std::array<View, N> in_large_words(const std::array<const View*, N>& views) {
  const LoopNest<N> nest(views);
  std::array<View, N> wide;
  for (std::size_t k = 0; k < N; ++k) {
    wide[k] = *views[k];
    wide[k].ndim = nest.ndim;
    for (int d = 0; d < nest.ndim; ++d)
      wide[k].sizes[d] = nest.sizes[d], wide[k].strides[d] = nest.strides[d][k];
  }
  const int inner = nest.ndim - 1;
  for (;;) {
    for (const View& v : wide) {
      bool even = itemsize(v.dtype) < 8 && v.strides[inner] == 1 && v.sizes[inner] % 2 == 0 &&
                  is_aligned(v.as<char>(), static_cast<int>(2 * itemsize(v.dtype)));
      for (int d = 0; d < inner; ++d) even = even && v.strides[d] % 2 == 0;
      if (!even) return wide;
    }
    for (View& v : wide) {
      v.dtype = twice(v.dtype);
      v.numel /= 2;
      v.sizes[inner] /= 2;
      for (int d = 0; d < inner; ++d) v.strides[d] /= 2;
    }
  }
}

}  // namespace

void copy(const Stream& stream, const View& out, const View& in) {
  if (out.numel == 0 || is_same(out, in)) return;
  if (try_transpose(stream, out, in)) return;
  if (out.dtype != in.dtype) return convert(stream, out, in);
  const auto [to, from] = in_large_words<2>({&out, &in});
  dispatch_words(to.dtype, [&, &to = to, &from = from]<class Word>() {
    map<Word, Word>(stream, "copy", Identity(), to, from);
  });
}

void fill(const Stream& stream, const View& out, Scalar value) {
  if (out.numel == 0) return;
  std::uint64_t word = 0;  // the value, repeated to fill the word
  dispatch_all(out.dtype, "fill", [&]<class T>() {
    const T v = value.cast<T>();
    for (std::size_t i = 0; i < sizeof word; i += sizeof(T))
      std::memcpy(reinterpret_cast<char*>(&word) + i, &v, sizeof(T));
  });
  const auto [to] = in_large_words<1>({&out});
  dispatch_words(to.dtype, [&, &to = to]<class Word>() {
    map<Word>(stream, "fill", Constant<Word>{static_cast<Word>(word)}, to);
  });
}

}  // namespace ferrite::kernels::cuda
