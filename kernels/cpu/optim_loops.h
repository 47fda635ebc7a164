// What optimizer steps on the CPU are made of.
#pragma once

#include <algorithm>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cpu::steps {

constexpr std::int64_t kGrain = 32768;
/// Elements a pass: few enough that what one loop wrote the next finds in the first cache.
constexpr std::int64_t kBlock = 512;

/// Elements as numbers to compute with: themselves, or converted into `buffer`.
template <class T>
Compute<T>* open(T* x, Compute<T>* buffer, std::int64_t n) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return x;
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = x[i];
    return buffer;
  }
}
template <class T>
void close(T* x, const Compute<T>* values, std::int64_t n) {
  if constexpr (!std::is_same_v<T, Compute<T>>)
    for (std::int64_t i = 0; i < n; ++i) x[i] = T(values[i]);
}

/// One array of a block while it is open.
template <class T>
class Opened {
 public:
  Opened(void* array, std::int64_t at, std::int64_t n)
      : at_(array ? static_cast<T*>(array) + at : nullptr), n_(n) {
    values_ = at_ ? open(at_, buffer_, n) : nullptr;
  }
  ~Opened() {
    if (at_) close(at_, values_, n_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  operator Compute<T>*() { return values_; }

 private:
  T* at_;
  std::int64_t n_;
  Compute<T>* values_;
  Compute<T> buffer_[std::is_same_v<T, Compute<T>> ? 1 : kBlock];
};

/// The gradient of a block as the update uses it: unscaled, with its sign and weight decay.
template <class T>
class Gradient {
 public:
  Gradient(const OptimBatch& batch, const OptimTensor& t, std::int64_t at, std::int64_t n,
           const Compute<T>* param, double factor, double weight_decay) {
    const auto f = static_cast<Compute<T>>(factor), decay = static_cast<Compute<T>>(weight_decay);
    const DType dtype = t.wide_grad ? dtype_of<T> : batch.grad_dtype.value_or(dtype_of<T>);
    if (dtype == kFloat16)
      take(static_cast<const Half*>(t.grad) + at, n, param, f, decay);
    else if (dtype == kBFloat16)
      take(static_cast<const BFloat16*>(t.grad) + at, n, param, f, decay);
    else
      take(static_cast<const T*>(t.grad) + at, n, param, f, decay);
  }
  operator Compute<T>*() { return values_; }

 private:
  template <class G>
  void take(const G* grad, std::int64_t n, const Compute<T>* param, Compute<T> f,
            Compute<T> decay) {
    if (decay != 0) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) values_[i] = f * grad[i] + decay * param[i];
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) values_[i] = f * grad[i];
    }
  }

  Compute<T> values_[kBlock];
};

inline void write_copy(const OptimBatch& batch, const OptimTensor& t, std::int64_t at,
                       std::int64_t n) {
  const float* param = static_cast<const float*>(t.param) + at;
  dispatch_types<Half, BFloat16>(batch.copy_dtype, "optimizer", [&]<class H>() {
    H* copy = static_cast<H*>(t.copy) + at;
    for (std::int64_t i = 0; i < n; ++i) copy[i] = param[i];
  });
}

/// Calls block(tensor, first element, count) for blocks of all tensors, on several threads.
template <class Block>
void for_each_block(const OptimBatch& batch, Block&& block) {
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const OptimTensor& t : batch.tensors) ends.push_back(total += t.numel);
  parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
    for (; begin < end; ++i) {
      const std::int64_t last = std::min(end, ends[i]);
      const OptimTensor& t = batch.tensors[i];
      for (std::int64_t at = begin - (ends[i] - t.numel); begin < last;) {
        const std::int64_t n = std::min(kBlock, last - begin);
        block(t, at, n);
        at += n;
        begin += n;
      }
    }
  });
}

inline bool overflowed(const OptimBatch& batch) { return batch.found_inf && *batch.found_inf != 0; }

inline void count_steps(const OptimBatch& batch) {
  for (const OptimTensor& t : batch.tensors) ++*t.step;
}

/// The same after counting the step, and with the copies; nothing where an overflow was found.
template <class Block>
void update(const OptimBatch& batch, Block&& block) {
  if (overflowed(batch)) return;
  count_steps(batch);
  for_each_block(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
    block(t, at, n);
    if (t.copy) write_copy(batch, t, at, n);
  });
}

/// Or beta1, which has the value `fallback` where the batch has none on the device.
inline double momentum_of(const OptimBatch& batch, double fallback) {
  return batch.momentum ? *batch.momentum : fallback;
}

inline double gradient_factor(const OptimBatch& batch, bool maximize) {
  const double scale = batch.inv_scale ? static_cast<double>(*batch.inv_scale) : 1;
  return maximize ? -scale : scale;
}

/// SGD's rule, which LARS follows with other gradients.
template <class C>
struct MomentumRule {
  C lr, momentum, take;
  bool nesterov;

  template <class Args>
  MomentumRule(const OptimBatch& batch, const Args& args)
      : lr(static_cast<C>(*batch.lr)),
        momentum(static_cast<C>(momentum_of(batch, args.momentum))),
        take(static_cast<C>(1 - args.dampening)),
        nesterov(args.nesterov) {}

  /// `g` may be overwritten; `buffer` is null without momentum.
  void operator()(bool first, std::int64_t n, C* p, C* g, C* buffer) const {
    const auto [lr, momentum, take, nesterov] = *this;  // stores to arrays do not change these
    if (buffer) {
      if (first) {
        std::copy_n(g, n, buffer);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) buffer[i] = momentum * buffer[i] + take * g[i];
      }
      if (nesterov) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) g[i] += momentum * buffer[i];
      } else {
        g = buffer;
      }
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) p[i] -= lr * g[i];
  }
};

}  // namespace ferrite::kernels::cpu::steps
