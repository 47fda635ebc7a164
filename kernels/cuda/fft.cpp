#include "ferrite/kernels/fft.h"

#include <algorithm>
#include <optional>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/cuda/vendor/cufft.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cuda {

namespace {

using vendor::FftProblem;

/// The most dimensions of one of cuFFT's transforms.
constexpr int kMostDims = 3;

/// `v` with the dimensions `last` moved to the end, in their order.
View with_last(const View& v, const Dims& last) {
  View moved = v;
  int at = 0;
  const auto put = [&](std::int64_t d) {
    moved.sizes[at] = v.sizes[d];
    moved.strides[at++] = v.strides[d];
  };
  for (int d = 0; d < v.ndim; ++d)
    if (std::find(last.begin(), last.end(), d) == last.end()) put(d);
  for (const std::int64_t d : last) put(d);
  return moved;
}

/// The memory of `v` if it serves cuFFT as it is, else contiguous memory of its shape.
class FftMemory {
 public:
  FftMemory(const Stream& stream, const View& v, bool overwritten) : view_(v) {
    const std::size_t alignment = itemsize(complex_type(v.dtype));
    if (v.is_contiguous() && !overwritten &&
        reinterpret_cast<std::uintptr_t>(v.data) % alignment == 0)
      return;
    own_.emplace(stream, static_cast<std::size_t>(v.numel) * itemsize(v.dtype));
    view_.data = own_->as<void>();
    std::int64_t stride = 1;
    for (int d = v.ndim - 1; d >= 0; --d) {
      view_.strides[d] = stride;
      stride *= v.sizes[d];
    }
  }
  const View& view() const { return view_; }
  bool is_own() const { return own_.has_value(); }

 private:
  View view_;
  std::optional<Workspace> own_;
};

/// The imaginary parts that transforms of n real numbers do not have, at frequencies 0 and n / 2 of
/// the last dimension, become 0: cuFFT reads them at some lengths.
void clear_edges(const Stream& stream, const View& frequencies, std::int64_t n) {
  View edges = kernels::complex_part(frequencies, 1);
  const int last = edges.ndim - 1;
  const std::int64_t count = n % 2 == 0 ? 2 : 1;
  edges.numel = edges.numel / edges.sizes[last] * count;
  edges.sizes[last] = count;
  edges.strides[last] *= n / 2;
  kernels::fill(stream, edges, 0);
}

/// Along at most kMostDims dimensions.
void transform(const Stream& stream, const Dims& dims, bool inverse, const View& out,
               const View& in) {
  const View to = with_last(out, dims), from = with_last(in, dims);
  FftProblem problem;
  problem.kind = !is_complex(in.dtype)    ? FftProblem::Kind::r2c
                 : !is_complex(out.dtype) ? FftProblem::Kind::c2r
                                          : FftProblem::Kind::c2c;
  const FftMemory source(stream, from, problem.kind == FftProblem::Kind::c2r),
      result(stream, to, false);
  const View& signal = problem.kind == FftProblem::Kind::c2r ? to : from;
  problem.part = real_type(in.dtype);
  problem.rank = dims.size();
  problem.batch = signal.numel;
  for (int i = 0; i < problem.rank; ++i) {
    const std::int64_t size = signal.sizes[signal.ndim - problem.rank + i];
    problem.sizes[static_cast<std::size_t>(i)] = size;
    problem.batch /= size;
  }
  if (source.is_own()) kernels::copy(stream, source.view(), from);
  if (problem.kind == FftProblem::Kind::c2r) clear_edges(stream, source.view(), problem.sizes[0]);
  vendor::fft(stream, problem, inverse, result.view().data, source.view().data);
  if (result.is_own()) kernels::copy(stream, to, result.view());
}

}  // namespace

void fft(const Stream& stream, const Fft& fft, const View& out, const View& in) {
  if (out.numel == 0) return;
  const View* from = &in;
  for (int begin = 0; begin < fft.dims.size(); begin += kMostDims) {
    Dims some;
    for (int i = begin; i < std::min(begin + kMostDims, fft.dims.size()); ++i)
      some.push_back(fft.dims[i]);
    transform(stream, some, fft.inverse, out, *from);
    from = &out;
  }
  if (fft.factor != 1) {
    const View parts = is_complex(out.dtype) ? as_real(out) : out;
    kernels::binary(stream, BinaryOp::mul, parts, parts, Scalar(fft.factor));
  }
}

}  // namespace ferrite::kernels::cuda
