#include "ferrite/kernels/attention.h"

#include <limits>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/attention_parts.h"
#include "ferrite/kernels/cpu/philox.h"

namespace ferrite::kernels::cpu {

namespace {

using namespace attention_parts;

/// What forward and backward share.
template <class T>
class Attention {
 public:
  using C = Compute<T>;
  using V = Vector<C>;

  explicit Attention(const AttentionOperands& o)
      : o_(o),
        query_(o.query),
        key_(o.key),
        value_(o.value),
        batch_(o.query.sizes[0]),
        heads_(o.query.sizes[1]),
        group_(heads_ / o.key.sizes[1]),
        queries_(o.query.sizes[2]),
        keys_(o.key.sizes[2]),
        block_queries_(round_up(even_share(queries_, kMostQueries), kPanel<C>)),
        block_keys_(round_up(even_share(keys_, kMostKeys), 12)) {}

 protected:
  /// Queries of a block, as they lie in memory.
  std::int64_t step() const { return block_queries_; }
  std::int64_t weights_of_block() const { return step() * block_keys_; }

  /// The scores of a block, with -inf for keys that a query does not attend to.
  void scores(C* to, const Block& k, Matrix<C> keys, const C* query_panels) const {
    multiply(to, step(), k.keys, round_up(k.queries, kLanes<C>), query_.width, Rows::apart, keys,
             {query_panels, kPanel<C>}, query_.width * kPanel<C>, false);
    if (o_.mask.data) o_.mask.dtype == kBool ? mask<bool>(to, k) : mask<T>(to, k);
    if (!o_.causal) return;
    for (std::int64_t s = std::max<std::int64_t>(0, k.query + 1 - k.key); s < k.keys; ++s)
      std::fill_n(to + s * step(), std::min(k.queries, k.key + s - k.query), kNever);
  }

  /// What each weight is multiplied by: 0 where it is dropped.
  void kept(C* to, const Block& k) const {
    const std::uint32_t drop_below = attention_drop_below(o_.dropout);
    const C scale = static_cast<C>(1 / (1 - o_.dropout));
    const std::int64_t word_step = attention_word_step(keys_);
    for (std::int64_t q = 0; q < k.queries; ++q) {
      const std::int64_t row = ((k.b * heads_ + k.h) * queries_ + k.query + q) * word_step + k.key;
      for_each_batch<1>(o_.state, row, row + k.keys,
                        [&](const std::uint32_t* words, std::int64_t first, std::int64_t skip,
                            std::int64_t count) {
                          C* at = to + (first - row) * step() + q;
                          for (std::int64_t i = 0; i < count; ++i)
                            at[i * step()] = words[skip + i] < drop_below ? C(0) : scale;
                        });
    }
  }

  static constexpr C kNever = -std::numeric_limits<C>::infinity();
  const AttentionOperands& o_;
  Heads<T> query_, key_, value_;
  std::int64_t batch_, heads_, group_, queries_, keys_, block_queries_, block_keys_;

 private:
  template <class M>
  void mask(C* to, const Block& k) const {
    const View& m = o_.mask;
    const M* from = m.as<M>() + k.b * m.strides[0] + k.h * m.strides[1] + k.query * m.strides[2] +
                    k.key * m.strides[3];
    const auto apply = [](C& score, M value) {
      if constexpr (std::is_same_v<M, bool>)
        score = value ? score : kNever;
      else
        score += static_cast<C>(value);
    };
    if (m.strides[2] == 0) {  // the same for all queries
      for (std::int64_t s = 0; s < k.keys; ++s)
        for (std::int64_t q = 0; q < k.queries; ++q)
          apply(to[s * step() + q], from[s * m.strides[3]]);
      return;
    }
    for (std::int64_t q = 0; q < k.queries; ++q)
      for (std::int64_t s = 0; s < k.keys; ++s)
        apply(to[s * step() + q], from[q * m.strides[2] + s * m.strides[3]]);
  }
};

template <class T>
class Forward : Attention<T> {
  using Base = Attention<T>;
  using C = Compute<T>;
  using V = Vector<C>;

 public:
  Forward(const AttentionOperands& o, const View& out, const View& lse)
      : Base(o), out_(out), lse_(lse.as<C>()), width_(round_up(out_.width, kLanes<C>)) {}

  void run() const {
    const std::int64_t blocks = (this->queries_ - 1) / this->block_queries_ + 1;
    parallel_for(
        this->batch_ * this->heads_ * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
          const Buffers buffers(*this);
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t head = i / blocks, query = i % blocks * this->block_queries_;
            attend({head / this->heads_, head % this->heads_, query,
                    std::min(this->block_queries_, this->queries_ - query), 0, 0},
                   buffers);
          }
        });
  }

 private:
  struct Buffers {
    explicit Buffers(const Forward& f)
        : rows(std::max(f.step(), f.block_keys_) * round_up(f.query_.width, kLanes<C>)),
          values(f.block_keys_ * f.width_),
          panels(f.step() * f.query_.width),
          weights(f.weights_of_block()),
          kept(f.o_.dropout > 0 ? f.weights_of_block() : 0),
          sums(f.step() * f.width_) {}
    Scratch<C> rows, values, panels, weights, kept, sums;
    mutable C top[kMostQueries + 16], total[kMostQueries + 16], shrink[kMostQueries + 16];
  };

  void attend(Block k, const Buffers& m) const {
    std::fill_n(m.top, this->step(), Base::kNever);
    std::fill_n(m.total, this->step(), C(0));
    transposed_panels(m.panels.data(),
                      whole_rows(this->query_.at(k.b, k.h, k.query), this->query_.row_step,
                                 k.queries, this->query_.width, m.rows.data()),
                      k.queries, this->query_.width, static_cast<C>(this->o_.scale));
    const std::int64_t end =
        this->o_.causal ? std::min(this->keys_, k.query + k.queries) : this->keys_;
    for (; k.key < end; k.key += this->block_keys_) {
      k.keys = std::min(this->block_keys_, end - k.key);
      add(k, m);
    }
    finish(k, m);
  }

  void add(const Block& k, const Buffers& m) const {
    const std::int64_t g = k.h / this->group_, step = this->step();
    C* const weights = m.weights.data();
    this->scores(weights, k,
                 whole_rows(this->key_.at(k.b, g, k.key), this->key_.row_step, k.keys,
                            this->key_.width, m.rows.data()),
                 m.panels.data());
    for (std::int64_t q = 0; q < k.queries; q += kLanes<C>) soften(weights + q, k.keys, q, m);
    if (this->o_.dropout > 0) {
      this->kept(m.kept.data(), k);
      for (std::int64_t i = 0; i < k.keys * step; i += kLanes<C>)
        store(weights + i, load(weights + i) * load(m.kept.data() + i));
    }
    C* const sums = m.sums.data();
    if (k.key > 0)
      for (std::int64_t q = 0; q < k.queries; ++q)
        if (m.shrink[q] != 1)
          for (std::int64_t i = 0; i < width_; i += kLanes<C>)
            store(sums + q * width_ + i, load(sums + q * width_ + i) * m.shrink[q]);
    const Matrix<C> values = whole_rows(this->value_.at(k.b, g, k.key), this->value_.row_step,
                                        k.keys, out_.width, m.values.data());
    multiply(sums, width_, k.queries, width_, k.keys, Rows::adjacent, {weights, step}, values,
             kPanel<C>, k.key > 0);
  }

  /// Turns the scores of a vector of queries into weights relative to their maximum so far.
  void soften(C* weights, std::int64_t keys, std::int64_t q, const Buffers& m) const {
    const std::int64_t step = this->step();
    const V before = load(m.top + q);
    V top = before;
    for (std::int64_t s = 0; s < keys; ++s) {
      const V x = load(weights + s * step);
      top = x > top ? x : top;
    }
    const V origin = top == Base::kNever ? V{} : top;
    V sum{};
    for (std::int64_t s = 0; s < keys; ++s) {
      const V w = weight_of<V>(load(weights + s * step) - origin);
      store(weights + s * step, w);
      sum += w;
    }
    const V shrink = weight_of<V>(before - origin);
    store(m.top + q, top);
    store(m.shrink + q, shrink);
    store(m.total + q, load(m.total + q) * shrink + sum);
  }

  void finish(const Block& k, const Buffers& m) const {
    for (std::int64_t q = 0; q < k.queries; ++q) {
      const C total = m.total[q], factor = total != 0 ? 1 / total : C(0);
      T* to = out_.at(k.b, k.h, k.query + q);
      for (std::int64_t i = 0; i < out_.width; ++i)
        to[i] = static_cast<T>(m.sums.data()[q * width_ + i] * factor);
      lse_[(k.b * this->heads_ + k.h) * this->queries_ + k.query + q] =
          total != 0 ? m.top[q] + std::log(total) : C(0);
    }
  }

  Heads<T> out_;
  C* lse_;
  std::int64_t width_;  ///< of the sums: whole vectors
};

template <class T>
class Backward : Attention<T> {
  using Base = Attention<T>;
  using C = Compute<T>;
  using V = Vector<C>;

 public:
  Backward(const AttentionOperands& o, const AttentionGradients& g, const View& grad_out,
           const View& out, const View& lse)
      : Base(o),
        g_(g),
        grad_(grad_out),
        out_(out),
        lse_(lse.as<C>()),
        e_(round_up(this->query_.width, kLanes<C>)),
        v_(round_up(grad_.width, kLanes<C>)),
        key_heads_(this->heads_ / this->group_),
        blocks_((this->keys_ - 1) / this->block_keys_ + 1) {
    // Keys are cut into parts by the sizes alone; each has its own sums for the queries.
    const std::int64_t wanted = kTasks / (this->batch_ * key_heads_);
    const std::int64_t parts =
        std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, blocks_ / 2));
    part_blocks_ = (blocks_ + parts - 1) / parts;
    parts_ = (blocks_ - 1) / part_blocks_ + 1;
  }

  void run() const {
    const std::int64_t rows = this->batch_ * this->heads_ * this->queries_;
    const Scratch<C> means(rows), sums(g_.query.data ? parts_ * rows * e_ : 0);
    parallel_for(rows, 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) mean_gradient(means.data(), r);
    });
    parallel_for(this->batch_ * key_heads_ * parts_, 1, [&](std::int64_t begin, std::int64_t end) {
      const Buffers buffers(*this);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t part = i % parts_, head = i / parts_;
        C* const to = sums.data() + part * rows * e_;
        for (std::int64_t h = 0; g_.query.data && h < this->group_; ++h)
          std::fill_n(to + (head * this->group_ + h) * this->queries_ * e_, this->queries_ * e_,
                      C(0));
        const std::int64_t end_block = std::min(blocks_, (part + 1) * part_blocks_);
        for (std::int64_t block = part * part_blocks_; block < end_block; ++block)
          keys_block(head / key_heads_, head % key_heads_, block, means.data(), to, buffers);
      }
    });
    if (!g_.query.data) return;
    const Heads<T> to(g_.query);
    parallel_for(rows, 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        C* sum = sums.data() + r * e_;
        for (std::int64_t p = 1; p < parts_; ++p) add_run(sum, sum + p * rows * e_, e_);
        store_scaled(row(to, r), sum, to.width, this->o_.scale);
      }
    });
  }

 private:
  static constexpr std::int64_t kTasks = 64;

  struct Buffers {
    explicit Buffers(const Backward& f)
        : keys(f.block_keys_ * f.e_),
          values(f.block_keys_ * f.v_),
          queries(f.step() * f.e_),
          grads(f.step() * f.v_),
          query_panels(f.step() * f.e_),
          grad_panels(f.step() * f.v_),
          weights(f.weights_of_block()),
          grad_weights(f.weights_of_block()),
          kept(f.o_.dropout > 0 ? f.weights_of_block() : 0),
          grad_keys(f.block_keys_ * f.e_),
          grad_values(f.block_keys_ * f.v_) {}
    Scratch<C> keys, values, queries, grads, query_panels, grad_panels, weights, grad_weights, kept,
        grad_keys, grad_values;
  };

  T* row(const Heads<T>& m, std::int64_t r) const {
    const std::int64_t head = r / this->queries_;
    return m.at(head / this->heads_, head % this->heads_, r % this->queries_);
  }
  static void store_scaled(T* to, const C* from, std::int64_t n, double scale) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i] * static_cast<C>(scale));
  }

  /// The mean of the gradients of a query's weights: by the weights, or the gradient times the
  /// result.
  void mean_gradient(C* to, std::int64_t r) const {
    const T *g = row(grad_, r), *o = row(out_, r);
    C sum = 0;
    for (std::int64_t i = 0; i < out_.width; ++i)
      sum += static_cast<C>(g[i]) * static_cast<C>(o[i]);
    to[r] = sum;
  }

  void keys_block(std::int64_t b, std::int64_t g, std::int64_t block, const C* means,
                  C* grad_queries, const Buffers& m) const {
    Block k{.b = b, .h = 0, .query = 0, .queries = 0, .key = block * this->block_keys_, .keys = 0};
    k.keys = std::min(this->block_keys_, this->keys_ - k.key);
    const Matrix<C> keys = whole_rows(this->key_.at(b, g, k.key), this->key_.row_step, k.keys,
                                      this->key_.width, m.keys.data());
    const Matrix<C> values = whole_rows(this->value_.at(b, g, k.key), this->value_.row_step, k.keys,
                                        grad_.width, m.values.data());
    const std::int64_t first = this->o_.causal ? k.key / this->step() * this->step() : 0;
    std::fill_n(m.grad_keys.data(), k.keys * e_, C(0));
    std::fill_n(m.grad_values.data(), k.keys * v_, C(0));
    for (k.h = g * this->group_; k.h < (g + 1) * this->group_; ++k.h)
      for (k.query = first; k.query < this->queries_; k.query += this->step()) {
        k.queries = std::min(this->step(), this->queries_ - k.query);
        add(k, keys, values, means, grad_queries, m);
      }
    const Heads<T> to_keys(g_.key), to_values(g_.value);
    for (std::int64_t s = 0; s < k.keys; ++s) {
      if (g_.key.data)
        store_scaled(to_keys.at(b, g, k.key + s), m.grad_keys.data() + s * e_, to_keys.width,
                     this->o_.scale);
      if (g_.value.data)
        store_scaled(to_values.at(b, g, k.key + s), m.grad_values.data() + s * v_, to_values.width,
                     1);
    }
  }

  void add(const Block& k, Matrix<C> keys, Matrix<C> values, const C* means, C* grad_queries,
           const Buffers& m) const {
    const std::int64_t step = this->step();
    const std::int64_t first = (k.b * this->heads_ + k.h) * this->queries_ + k.query;
    const Matrix<C> queries = whole_rows(this->query_.at(k.b, k.h, k.query), this->query_.row_step,
                                         k.queries, this->query_.width, m.queries.data());
    const Matrix<C> grads = whole_rows(grad_.at(k.b, k.h, k.query), grad_.row_step, k.queries,
                                       grad_.width, m.grads.data());
    transposed_panels(m.query_panels.data(), queries, k.queries, this->query_.width,
                      static_cast<C>(this->o_.scale));
    transposed_panels(m.grad_panels.data(), grads, k.queries, grad_.width, C(1));
    C *const weights = m.weights.data(), *const grad_weights = m.grad_weights.data();
    this->scores(weights, k, keys, m.query_panels.data());
    multiply(grad_weights, step, k.keys, round_up(k.queries, kLanes<C>), grad_.width, Rows::apart,
             values, {m.grad_panels.data(), kPanel<C>}, grad_.width * kPanel<C>, false);
    const C* kept = nullptr;
    if (this->o_.dropout > 0) this->kept(m.kept.data(), k), kept = m.kept.data();
    for (std::int64_t q = 0; q < k.queries; q += kLanes<C>) {
      const std::int64_t count = std::min<std::int64_t>(kLanes<C>, k.queries - q);
      const V lse = load_partial(lse_ + first + q, count);
      const V mean = load_partial(means + first + q, count);
      for (std::int64_t s = 0; s < k.keys; ++s) {
        const std::int64_t at = s * step + q;
        const V w = weight_of<V>(load(weights + at) - lse);
        V grad = load(grad_weights + at);
        if (kept) grad *= load(kept + at);
        store(weights + at, kept ? w * load(kept + at) : w);
        store(grad_weights + at, w * (grad - mean));
      }
    }
    if (g_.value.data)
      multiply(m.grad_values.data(), v_, k.keys, v_, k.queries, Rows::apart, {weights, step}, grads,
               kPanel<C>, true);
    if (g_.key.data)
      multiply(m.grad_keys.data(), e_, k.keys, e_, k.queries, Rows::apart, {grad_weights, step},
               queries, kPanel<C>, true);
    if (g_.query.data)
      multiply(grad_queries + first * e_, e_, k.queries, e_, k.keys, Rows::adjacent,
               {grad_weights, step}, keys, kPanel<C>, true);
  }

  const AttentionGradients& g_;
  Heads<T> grad_, out_;
  const C* lse_;
  std::int64_t e_, v_;  ///< columns of keys and values, in whole vectors
  std::int64_t key_heads_, blocks_, part_blocks_, parts_;
};

}  // namespace

void attention(const AttentionOperands& operands, const View& out, const View& lse) {
  dispatch_floating(out.dtype, "scaled_dot_product_attention",
                    [&]<class T>() { Forward<T>(operands, out, lse).run(); });
}

void attention_backward(const AttentionOperands& operands, const AttentionGradients& gradients,
                        const View& grad_out, const View& out, const View& lse) {
  dispatch_floating(out.dtype, "scaled_dot_product_attention",
                    [&]<class T>() { Backward<T>(operands, gradients, grad_out, out, lse).run(); });
}

}  // namespace ferrite::kernels::cpu
