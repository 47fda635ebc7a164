#include "ferrite/kernels/index.h"

#include <atomic>
#include <cstring>

#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Calls body.operator()<Word>() with a word as large as an element: moving needs no arithmetic.
template <class Body>
void dispatch_words(DType dtype, Body&& body) {
  switch (itemsize(dtype)) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

/// Remembers, from any thread, that an index was out of range.
class RangeCheck {
 public:
  explicit RangeCheck(std::int64_t size) : size_(static_cast<std::uint64_t>(size)) {}
  bool fits(std::int64_t value) {
    if (static_cast<std::uint64_t>(value) < size_) [[likely]]
      return true;
    note();
    return false;
  }
  /// Throws for the first bad value in row-major order, so that the message is always the same.
  void finish(const char* op, const View& index) const {
    if (!failed_.load(std::memory_order_relaxed)) return;
    for (std::int64_t i = 0; i < index.numel; ++i) {
      Shape position = Shape::filled(index.ndim, 0);
      std::int64_t rest = i, offset = 0;
      for (int d = index.ndim - 1; d >= 0; --d) {
        position[d] = rest % index.sizes[d];
        rest /= index.sizes[d];
        offset += position[d] * index.strides[d];
      }
      const std::int64_t value = index.as<std::int64_t>()[offset];
      if (static_cast<std::uint64_t>(value) >= size_)
        fail<IndexError>(op, "index {} at position {} is out of range for a dimension of size {}",
                         value, position, size_);
    }
  }

 private:
  /// Not inlined, so that loops keep nothing ready for it.
  [[gnu::noinline, gnu::cold]] void note() { failed_.store(true, std::memory_order_relaxed); }

  const std::uint64_t size_;
  std::atomic<bool> failed_{false};
};

/// Calls each(a, b, c) for offsets `at` that move n times by `step`. Steps of 0, 1 and 1, along the
/// last dimension of dense tensors, are a loop of their own, which the compiler knows more about.
/// So is what `each` holds by value.
template <class Each>
void walk(const std::array<std::int64_t, 3>& at, const std::array<std::int64_t, 3>& step,
          std::int64_t n, Each each) {
  const auto [a, b, c] = at;
  const auto [a_step, b_step, c_step] = step;
  if (a_step == 0 && b_step == 1 && c_step == 1) {
    for (std::int64_t i = 0; i < n; ++i) each(a, b + i, c + i);
  } else {
    for (std::int64_t i = 0; i < n; ++i) each(a + i * a_step, b + i * b_step, c + i * c_step);
  }
}

/// Calls each(base, index offset, source offset) for every element of `index`: elements that differ
/// in another dimension than `dim` on several threads, those along `dim` in order.
template <class Each>
void for_each_in_order(const View& out, const View& index, const View& source, int dim,
                       Each&& each) {
  View o = bases(out, index, dim), i = index, s = bases(source, index, dim);
  const std::int64_t length = index.sizes[dim];
  const std::array<std::int64_t, 3> along{0, index.strides[dim], source.strides[dim]};
  for (View* v : {&o, &i, &s}) v->sizes[dim] = 1, v->numel = index.numel / length;
  const std::int64_t grain = std::max<std::int64_t>(64, kElementGrain / length);
  for_each_run<3>(
      {&o, &i, &s},
      [&](const auto& at, const auto& step, std::int64_t n) {
        const auto from = [&](const auto& steps, std::int64_t count) {
          return std::array{at[0] + count * steps[0], at[1] + count * steps[1],
                            at[2] + count * steps[2]};
        };
        // The dimension with the smaller steps is the inner loop, unless it has one element.
        if (n > 1 && step[1] <= along[1]) {
          for (std::int64_t k = 0; k < length; ++k) walk(from(along, k), step, n, each);
        } else {
          for (std::int64_t j = 0; j < n; ++j) walk(from(step, j), along, length, each);
        }
      },
      grain);
}

}  // namespace

void gather(const char* op, const View& out, const View& x, const View& index, int dim) {
  if (out.numel == 0) return;
  RangeCheck check(x.sizes[dim]);
  const View base = bases(x, index, dim);
  const std::int64_t x_step = x.strides[dim];
  const std::int64_t* ids = index.as<std::int64_t>();
  dispatch_words(out.dtype, [&]<class Word>() {
    Word* o = out.as<Word>();
    const Word* from = x.as<Word>();
    for_each_run<3>({&out, &index, &base}, [&, o, from](const auto& at, const auto& step, auto n) {
      walk({at[2], at[0], at[1]}, {step[2], step[0], step[1]}, n,
           [=, &check](auto base, auto to, auto i) {
             if (const std::int64_t id = ids[i]; check.fits(id)) o[to] = from[base + id * x_step];
           });
    });
  });
  check.finish(op, index);
}

void scatter(const char* op, const View& out, const View& index, const View& source, int dim) {
  if (index.numel == 0) return;
  RangeCheck check(out.sizes[dim]);
  const std::int64_t o_step = out.strides[dim];
  const std::int64_t* ids = index.as<std::int64_t>();
  dispatch_words(out.dtype, [&]<class Word>() {
    Word* o = out.as<Word>();
    const Word* from = source.as<Word>();
    for_each_in_order(out, index, source, dim, [=, &check](auto base, auto i, auto s) {
      if (check.fits(ids[i])) o[base + ids[i] * o_step] = from[s];
    });
  });
  check.finish(op, index);
}

namespace {

/// a + factor * b; integers wrap around.
template <class T>
T add_multiple(T a, T b, T factor) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) +
                          static_cast<std::uint64_t>(factor) * static_cast<std::uint64_t>(b));
  else
    return static_cast<T>(a + factor * b);
}

}  // namespace

void scatter_add(const char* op, const View& out, const View& index, const View& source, int dim) {
  if (index.numel == 0) return;
  RangeCheck check(out.sizes[dim]);
  const std::int64_t o_step = out.strides[dim];
  const std::int64_t* ids = index.as<std::int64_t>();
  dispatch_added(out.dtype, op, [&]<class T>() {
    T* o = out.as<T>();
    const T* from = source.as<T>();
    for_each_in_order(out, index, source, dim, [=, &check](auto base, auto i, auto s) {
      if (!check.fits(ids[i])) return;
      T& to = o[base + ids[i] * o_step];
      to = add_multiple(to, from[s], T(1));
    });
  });
  check.finish(op, index);
}

namespace {

/// to = to joined with `from`; integers wrap around.
template <class T>
void join(Scattered how, T& to, T from) {
  if (how != Scattered::prod) {
    const bool better = how == Scattered::max ? from > to : from < to;
    if (better || from != from) to = from;
  } else if constexpr (std::is_floating_point_v<T>) {
    to *= from;
  } else {
    to = static_cast<T>(static_cast<std::uint64_t>(to) * static_cast<std::uint64_t>(from));
  }
}

}  // namespace

void scatter_reduce(const char* op, Scattered how, const View& out, const View& index,
                    const View& source, int dim) {
  if (index.numel == 0) return;
  RangeCheck check(out.sizes[dim]);
  const std::int64_t o_step = out.strides[dim];
  const std::int64_t* ids = index.as<std::int64_t>();
  dispatch_added(out.dtype, op, [&]<class T>() {
    T* o = out.as<T>();
    const T* from = source.as<T>();
    for_each_in_order(out, index, source, dim, [=, &check](auto base, auto i, auto s) {
      if (check.fits(ids[i])) join(how, o[base + ids[i] * o_step], from[s]);
    });
  });
  check.finish(op, index);
}

void index_select(const char* op, const View& out, const View& x, const View& index, int dim) {
  if (out.numel == 0) return;
  if (!out.is_contiguous() || !x.is_contiguous()) {
    // Along an index that all lanes share, gather's check would name a position in the result.
    RangeCheck check(x.sizes[dim]);
    for (std::int64_t k = 0; k < index.numel; ++k)
      check.fits(index.as<std::int64_t>()[k * index.strides[0]]);
    check.finish(op, index);
    gather(op, out, x, broadcast_index(index, out, dim), dim);
    return;
  }
  RangeCheck check(x.sizes[dim]);
  std::int64_t block = static_cast<std::int64_t>(itemsize(out.dtype));
  for (int d = dim + 1; d < out.ndim; ++d) block *= out.sizes[d];
  const std::int64_t count = out.sizes[dim];
  const std::int64_t* ids = index.as<std::int64_t>();
  const std::int64_t step = index.strides[0], size = x.sizes[dim];
  dispatch_words(out.dtype, [&]<class Word>() {
    const std::int64_t words = block / static_cast<std::int64_t>(sizeof(Word));
    const std::int64_t blocks = out.numel / words;
    Word* const o = out.as<Word>();
    const Word* const from = x.as<Word>();
    parallel_for(
        blocks, std::max<std::int64_t>(1, kElementGrain / words),
        [&, ids, step, size, count, words, block, o, from](std::int64_t begin, std::int64_t end) {
          std::int64_t row = begin / count, k = begin % count;
          for (std::int64_t b = begin; b < end; ++b, ++k) {
            if (k == count) ++row, k = 0;
            const std::int64_t id = ids[k * step];
            if (!check.fits(id)) continue;
            const std::int64_t place = row * size + id;
            if (words == 1)
              o[b] = from[place];
            else
              std::memcpy(o + b * words, from + place * words, static_cast<std::size_t>(block));
          }
        });
  });
  check.finish(op, index);
}

namespace {

/// Chooses by bits, which becomes vector code where a conditional expression does not.
template <class Word>
void fill_words(const View& out, const View& x, const View& mask, Word word) {
  Word* o = out.as<Word>();
  const Word* from = x.as<Word>();
  const std::uint8_t* m = mask.as<std::uint8_t>();
  for_each_run<3>({&out, &x, &mask}, [=](const auto& at, const auto& step, std::int64_t n) {
    const auto one = [&](std::int64_t io, std::int64_t ix, std::int64_t im) {
      const Word keep = static_cast<Word>(static_cast<Word>(m[at[2] + im] != 0) - 1);
      o[at[0] + io] = static_cast<Word>((from[at[1] + ix] & keep) | (word & ~keep));
    };
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) one(i, i, i);
    } else {
      for (std::int64_t i = 0; i < n; ++i) one(i * step[0], i * step[1], i * step[2]);
    }
  });
}

template <class T, class S>
void add_slices(const View& out, const View& index, const View& source, int dim, T alpha,
                RangeCheck& check) {
  View o = bases(out, source, dim), s = bases(source, source, dim);
  const std::int64_t length = index.numel, i_step = index.strides[0];
  const std::int64_t o_step = out.strides[dim], s_step = source.strides[dim];
  for (View* v : {&o, &s}) v->sizes[dim] = 1, v->numel = source.numel / length;
  const std::int64_t* ids = index.as<std::int64_t>();
  const std::int64_t grain = std::max<std::int64_t>(512, kElementGrain / length);
  for_each_run<2>(
      {&o, &s},
      [&](const auto& at, const auto& step, std::int64_t n) {
        if (n == 1) {  // as of vectors: no loop for each index
          walk({at[0], 0, at[1]}, {0, i_step, s_step}, length,
               [=, &check, o = out.as<T>(), source = source.as<S>()](auto base, auto i, auto s) {
                 if (!check.fits(ids[i])) return;
                 T& to = o[base + ids[i] * o_step];
                 to = add_multiple(to, static_cast<T>(source[s]), alpha);
               });
          return;
        }
        for (std::int64_t k = 0; k < length; ++k) {
          const std::int64_t id = ids[k * i_step];
          if (!check.fits(id)) continue;
          T* to = out.as<T>() + at[0] + id * o_step;
          const S* from = source.as<S>() + at[1] + k * s_step;
          const auto add = [&](std::int64_t i, std::int64_t j) {
            to[i] = add_multiple(to[i], static_cast<T>(from[j]), alpha);
          };
          if (step[0] == 1 && step[1] == 1) {
#pragma GCC ivdep
            for (std::int64_t i = 0; i < n; ++i) add(i, i);
          } else {
            for (std::int64_t i = 0; i < n; ++i) add(i * step[0], i * step[1]);
          }
        }
      },
      grain);
}

}  // namespace

void index_add(const char* op, const View& out, const View& index, const View& source, int dim,
               Scalar alpha) {
  if (source.numel == 0) return;
  RangeCheck check(out.sizes[dim]);
  dispatch_added(out.dtype, op, [&]<class T>() {
    const T a = alpha.cast<T>();
    if constexpr (std::is_same_v<T, float>) {
      if (source.dtype == kFloat16)
        return add_slices<float, Half>(out, index, source, dim, a, check);
      if (source.dtype == kBFloat16)
        return add_slices<float, BFloat16>(out, index, source, dim, a, check);
    }
    add_slices<T, T>(out, index, source, dim, a, check);
  });
  check.finish(op, index);
}

void masked_fill(const View& out, const View& x, const View& mask, Scalar value) {
  dispatch_all(out.dtype, "masked_fill", [&]<class T>() {
    const T v = value.cast<T>();
    dispatch_words(out.dtype, [&]<class Word>() {
      if constexpr (sizeof(Word) == sizeof(T)) {
        Word word;
        std::memcpy(&word, &v, sizeof word);
        fill_words<Word>(out, x, mask, word);
      }
    });
  });
}

void count_nonzero(const View& out, const View& x) {
  std::atomic<std::int64_t> total{0};
  dispatch_all(x.dtype, "nonzero", [&]<class T>() {
    for_each_run<1>({&x}, [&](const auto& at, const auto& step, std::int64_t n) {
      const T* p = x.as<T>() + at[0];
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < n; ++i)
        count += static_cast<Compute<T>>(p[i * step[0]]) != Compute<T>(0);
      total.fetch_add(count, std::memory_order_relaxed);
    });
  });
  *out.as<std::int64_t>() = total.load();
}

void nonzero(const View& out, const View& x) {
  if (x.numel == 0) return;
  const int last = x.ndim - 1;
  const std::int64_t count = last >= 0 ? x.sizes[last] : 1, step = last >= 0 ? x.strides[last] : 0;
  std::int64_t* o = out.as<std::int64_t>();
  dispatch_all(x.dtype, "nonzero", [&]<class T>() {
    Shape index = Shape::filled(x.ndim, 0);
    const T* p = x.as<T>();
    for (std::int64_t row = 0; row < x.numel / count; ++row) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (static_cast<Compute<T>>(p[i * step]) == Compute<T>(0)) continue;
        for (int d = 0; d < last; ++d) *o++ = index[d];
        if (last >= 0) *o++ = i;
      }
      for (int d = last - 1; d >= 0; --d) {
        p += x.strides[d];
        if (++index[d] < x.sizes[d]) break;
        p -= x.strides[d] * x.sizes[d];
        index[d] = 0;
      }
    }
  });
}

void triangle(const View& out, const View& x, Triangle part, std::int64_t diagonal) {
  if (out.numel == 0) return;
  const std::int64_t rows = x.sizes[x.ndim - 2], cols = x.sizes[x.ndim - 1];
  const auto size = itemsize(x.dtype);
  const std::int64_t shift = std::clamp(diagonal, -rows - 1, cols + 1);
  parallel_for(x.numel / cols, std::max<std::int64_t>(1, kElementGrain / cols),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   char* to = out.as<char>() + static_cast<std::size_t>(r * cols) * size;
                   const char* from = x.as<char>() + static_cast<std::size_t>(r * cols) * size;
                   // The first column right of the lower triangle, or of the upper one.
                   const std::int64_t edge = std::clamp<std::int64_t>(
                       r % rows + shift + (part == Triangle::lower), 0, cols);
                   const std::size_t left = static_cast<std::size_t>(edge) * size;
                   const std::size_t right = static_cast<std::size_t>(cols - edge) * size;
                   if (part == Triangle::lower) {
                     std::memcpy(to, from, left);
                     std::memset(to + left, 0, right);
                   } else {
                     std::memset(to, 0, left);
                     std::memcpy(to + left, from + left, right);
                   }
                 }
               });
}

}  // namespace ferrite::kernels::cpu
