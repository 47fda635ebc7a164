#include "kernels/cpu/optim.h"

#include <algorithm>
#include <cmath>

#include "core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

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
    const DType dtype = batch.grad_dtype.value_or(dtype_of<T>);
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

void write_copy(const OptimBatch& batch, const OptimTensor& t, std::int64_t at, std::int64_t n) {
  const float* param = static_cast<const float*>(t.param) + at;
  dispatch_types<Half, BFloat16>(batch.copy_dtype, "optimizer", [&]<class H>() {
    H* copy = static_cast<H*>(t.copy) + at;
    for (std::int64_t i = 0; i < n; ++i) copy[i] = param[i];
  });
}

/// Calls block(tensor, first element, count) for blocks of all tensors, on several threads, after
/// counting the step; nothing where an overflow was found.
template <class Block>
void update(const OptimBatch& batch, Block&& block) {
  if (batch.found_inf && *batch.found_inf != 0) return;
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const OptimTensor& t : batch.tensors) {
    ++*t.step;
    ends.push_back(total += t.numel);
  }
  parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
    for (; begin < end; ++i) {
      const std::int64_t last = std::min(end, ends[i]);
      const OptimTensor& t = batch.tensors[i];
      for (std::int64_t at = begin - (ends[i] - t.numel); begin < last;) {
        const std::int64_t n = std::min(kBlock, last - begin);
        block(t, at, n);
        if (t.copy) write_copy(batch, t, at, n);
        at += n;
        begin += n;
      }
    }
  });
}

double gradient_factor(const OptimBatch& batch, bool maximize) {
  const double scale = batch.inv_scale ? static_cast<double>(*batch.inv_scale) : 1;
  return maximize ? -scale : scale;
}

}  // namespace

void sgd(const OptimBatch& batch, const SgdArgs& args) {
  dispatch_floating(batch.dtype, "sgd", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize);
    const C lr = static_cast<C>(*batch.lr), momentum = static_cast<C>(args.momentum),
            take = static_cast<C>(1 - args.dampening);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      Opened<T> param(t.param, at, n), state(t.state[0], at, n);
      C* p = param;
      Gradient<T> gradient(batch, t, at, n, p, factor, args.weight_decay);
      C* g = gradient;
      if (C* buffer = state) {
        if (*t.step == 1) {
          std::copy_n(g, n, buffer);
        } else {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) buffer[i] = momentum * buffer[i] + take * g[i];
        }
        if (args.nesterov) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) g[i] += momentum * buffer[i];
        } else {
          g = buffer;
        }
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) p[i] -= lr * g[i];
    });
  });
}

void adam(const OptimBatch& batch, const AdamArgs& args) {
  dispatch_floating(batch.dtype, "adam", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize), lr = *batch.lr;
    const C beta1 = static_cast<C>(args.beta1), take1 = static_cast<C>(1 - args.beta1),
            beta2 = static_cast<C>(args.beta2), take2 = static_cast<C>(1 - args.beta2),
            eps = static_cast<C>(args.eps);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      const auto step = static_cast<double>(*t.step);
      const C step_size = static_cast<C>(lr / (1 - std::pow(args.beta1, step)));
      const C correction = static_cast<C>(1 / std::sqrt(1 - std::pow(args.beta2, step)));
      Opened<T> param(t.param, at, n), first(t.state[0], at, n), second(t.state[1], at, n),
          maximum(t.state[2], at, n);
      C *p = param, *m = first, *v = second, *divisor = v;
      Gradient<T> gradient(batch, t, at, n, p, factor, args.decoupled ? 0 : args.weight_decay);
      const C* g = gradient;
      if (args.decoupled && args.weight_decay != 0) {
        const C keep = static_cast<C>(1 - lr * args.weight_decay);
        for (std::int64_t i = 0; i < n; ++i) p[i] *= keep;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        m[i] = beta1 * m[i] + take1 * g[i];
        v[i] = beta2 * v[i] + take2 * g[i] * g[i];
      }
      if (C* largest = maximum) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i)
          largest[i] = v[i] > largest[i] || v[i] != v[i] ? v[i] : largest[i];
        divisor = largest;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i)
        p[i] -= step_size * m[i] / (std::sqrt(divisor[i]) * correction + eps);
    });
  });
}

void rmsprop(const OptimBatch& batch, const RmspropArgs& args) {
  dispatch_floating(batch.dtype, "rmsprop", [&]<class T>() {
    using C = Compute<T>;
    const double factor = gradient_factor(batch, args.maximize);
    const C lr = static_cast<C>(*batch.lr), alpha = static_cast<C>(args.alpha),
            take = static_cast<C>(1 - args.alpha), eps = static_cast<C>(args.eps),
            momentum = static_cast<C>(args.momentum);
    update(batch, [&](const OptimTensor& t, std::int64_t at, std::int64_t n) {
      Opened<T> param(t.param, at, n), square(t.state[0], at, n), momenta(t.state[1], at, n),
          mean(t.state[2], at, n);
      C *p = param, *s = square, *buffer = momenta, *average = mean;
      Gradient<T> gradient(batch, t, at, n, p, factor, args.weight_decay);
      C* g = gradient;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) s[i] = alpha * s[i] + take * g[i] * g[i];
      if (average) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          average[i] = alpha * average[i] + take * g[i];
          g[i] /= std::sqrt(s[i] - average[i] * average[i]) + eps;
        }
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) g[i] /= std::sqrt(s[i]) + eps;
      }
      if (buffer) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) g[i] = buffer[i] = momentum * buffer[i] + g[i];
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) p[i] -= lr * g[i];
    });
  });
}

}  // namespace ferrite::kernels::cpu
