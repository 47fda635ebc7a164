#include "ferrite/kernels/pad.h"

#include <vector>

#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/pad_plan.h"

namespace ferrite::kernels::cpu {

namespace {

template <class Word>
void fill_run(Word* out, std::int64_t step, std::int64_t n, Word value) {
  if (step == 1)
    std::fill_n(out, n, value);
  else
    for (std::int64_t i = 0; i < n; ++i) out[i * step] = value;
}

template <class Word>
void copy_run(Word* out, std::int64_t out_step, const Word* x, std::int64_t x_step,
              std::int64_t n) {
  if (out_step == 1 && x_step == 1) {
    // Where the target lies just behind the source within a page, as in roll(), a processor takes
    // what it reads for what it has just written. From the end it does not.
    constexpr std::int64_t kPage = 4096, kBlock = 256 / static_cast<std::int64_t>(sizeof(Word));
    const auto behind =
        (reinterpret_cast<std::intptr_t>(out) - reinterpret_cast<std::intptr_t>(x)) & (kPage - 1);
    if (n > kBlock && behind > 0 && behind < kPage / 2)
      for (; n > kBlock; n -= kBlock) std::copy_n(x + n - kBlock, kBlock, out + n - kBlock);
    std::copy_n(x, n, out);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * out_step] = x[i * x_step];
  }
}

/// A row: what lies inside at once, and the edges on their own.
template <class Word>
void pad_row(Word* out, const Word* x, const PadDim& dim, PadMode mode, Word value) {
  const std::int64_t first = std::clamp<std::int64_t>(dim.before, 0, dim.size);
  const std::int64_t last = std::clamp(dim.before + dim.x_size, first, dim.size);
  if (first < last)
    copy_run(out + first * dim.out_stride, dim.out_stride, x + (first - dim.before) * dim.x_stride,
             dim.x_stride, last - first);
  if (mode == PadMode::constant) {
    fill_run(out, dim.out_stride, first, value);
    fill_run(out + last * dim.out_stride, dim.out_stride, dim.size - last, value);
    return;
  }
  const auto edge = [&](std::int64_t begin, std::int64_t end) {
    if (mode == PadMode::circular && begin < end) {  // one run: no more than x is padded
      const std::int64_t from = pad_source(begin - dim.before, dim.x_size, mode);
      return copy_run(out + begin * dim.out_stride, dim.out_stride, x + from * dim.x_stride,
                      dim.x_stride, end - begin);
    }
    for (std::int64_t i = begin; i < end; ++i)
      out[i * dim.out_stride] = x[pad_source(i - dim.before, dim.x_size, mode) * dim.x_stride];
  };
  edge(0, first);
  edge(last, dim.size);
}

template <class Word>
void pad_words(const View& out, const View& x, const PadPlan& plan, PadMode mode, Word value) {
  const PadDim& inner = plan.dims[plan.ndim - 1];
  const std::int64_t rows = plan.numel() / inner.size;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / inner.size);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Word* to = out.as<Word>();
      const Word* from = x.as<Word>();
      bool inside = true;
      std::int64_t rest = row;
      for (int d = plan.ndim - 2; d >= 0; --d) {
        const PadDim& dim = plan.dims[d];
        const std::int64_t i = rest % dim.size;
        rest /= dim.size;
        const std::int64_t p = pad_source(i - dim.before, dim.x_size, mode);
        inside = inside && p >= 0 && p < dim.x_size;
        to += i * dim.out_stride;
        if (inside) from += p * dim.x_stride;
      }
      if (inside)
        pad_row(to, from, inner, mode, value);
      else
        fill_run(to, inner.out_stride, inner.size, value);
    }
  });
}

/// out = 0 + x, as a sum of one: there is no negative zero.
template <class T>
void add_to_zero(T* out, std::int64_t step, const T* x, std::int64_t x_step, std::int64_t n) {
  const auto sum = [](T value) { return static_cast<T>(Compute<T>(0) + value); };
  if (step == 1 && x_step == 1)
    for (std::int64_t i = 0; i < n; ++i) out[i] = sum(x[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) out[i * step] = sum(x[i * x_step]);
}

}  // namespace

void pad(const View& out, const View& x, const Shape& before, PadMode mode, Scalar value) {
  if (out.numel == 0) return;
  const PadPlan plan(out, x, before);
  const std::uint64_t bits = element_bits(out.dtype, value);
  switch (itemsize(out.dtype)) {
    case 1:
      return pad_words(out, x, plan, mode, static_cast<std::uint8_t>(bits));
    case 2:
      return pad_words(out, x, plan, mode, static_cast<std::uint16_t>(bits));
    case 4:
      return pad_words(out, x, plan, mode, static_cast<std::uint32_t>(bits));
    default:
      return pad_words(out, x, plan, mode, bits);
  }
}

void pad_backward(const View& grad_x, const View& grad, int dim, std::int64_t before,
                  PadMode mode) {
  const View base = bases(grad, grad_x, dim);
  View number = grad_x;
  std::fill_n(number.strides, number.ndim, std::int64_t{0});
  number.strides[dim] = 1;
  const std::int64_t n = grad_x.sizes[dim], size = grad.sizes[dim], g_step = grad.strides[dim];
  // Most elements are read once, at their own place.
  std::vector<char> once(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    int readers = 0;
    for_each_reader(i, n, before, size, mode, [&](std::int64_t) { ++readers; });
    once[static_cast<std::size_t>(i)] = readers == 1;
  }
  dispatch_floating(grad.dtype, "pad_backward", [&]<class T>() {
    for_each_run<3>({&grad_x, &base, &number}, [&](const auto& at, const auto& step,
                                                   std::int64_t count) {
      T* const to = grad_x.as<T>() + at[0];
      const T* const from = grad.as<T>() + at[1] + before * g_step;
      const auto is_once = [&](std::int64_t i) {
        return once[static_cast<std::size_t>(at[2] + i * step[2])] != 0;
      };
      std::int64_t i = 0;
      while (i < count) {
        std::int64_t end = i;
        if (step[2] == 0)
          end = is_once(i) ? count : i;
        else
          while (end < count && is_once(end)) ++end;
        const std::int64_t g_run = step[1] + step[2] * g_step;
        add_to_zero(to + i * step[0], step[0], from + at[2] * g_step + i * g_run, g_run, end - i);
        for (i = end; i < count && !is_once(i); ++i) {
          Compute<T> sum = 0;
          for_each_reader(at[2] + i * step[2], n, before, size, mode,
                          [&](std::int64_t p) { sum += from[i * step[1] + p * g_step]; });
          to[i * step[0]] = static_cast<T>(sum);
        }
      }
    });
  });
}

}  // namespace ferrite::kernels::cpu
