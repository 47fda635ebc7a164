// The host-side decisions about cuBLASLt, tested without the library.
#include "ferrite/kernels/cuda/vendor/matmul_problem.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "ferrite/kernels/cuda/vendor/plan_cache.h"

using namespace ferrite;
using namespace ferrite::kernels;
using namespace ferrite::kernels::cuda::vendor;

namespace {

alignas(256) std::array<std::byte, 1024> memory;

struct Geometry {
  std::vector<std::int64_t> sizes, strides;
};

/// A view of these sizes and strides, `offset` bytes past a boundary of 256.
View view(const Geometry& g, std::size_t offset = 0, DType dtype = kFloat32) {
  View v;
  v.data = memory.data() + offset;
  v.dtype = dtype;
  v.ndim = static_cast<int>(g.sizes.size());
  v.numel = 1;
  for (std::size_t i = 0; i < g.sizes.size(); ++i) {
    v.numel *= g.sizes[i];
    v.sizes[i] = g.sizes[i];
    v.strides[i] = g.strides[i];
  }
  return v;
}

/// out [8, 24] = a [8, 16] b [16, 24], by rows.
const View kOut = view({{8, 24}, {24, 1}});
const View kA = view({{8, 16}, {16, 1}});
const View kB = view({{16, 24}, {24, 1}});
const View kBias = view({{24}, {1}});

std::optional<MatmulProblem> problem(const View& out, const View& a, const View& b,
                                     const MatmulOptions& options = {}) {
  return matmul_problem(out, a, b, options, {});
}

std::optional<MatmulEpilogue> epilogue(const MatmulOptions& options, const View& out = kOut) {
  const auto p = problem(out, kA, kB, options);
  return p ? std::optional(p->epilogue) : std::nullopt;
}

}  // namespace

TEST_CASE("dense rows: the transposed product, nothing transposed by the library") {
  const auto p = problem(kOut, kA, kB);
  REQUIRE(p);
  CHECK_FALSE(p->left_is_a);
  CHECK(p->left == ColumnMatrix{false, 24, 16, 24, 0, 256});
  CHECK(p->right == ColumnMatrix{false, 16, 8, 16, 0, 256});
  CHECK(p->out == ColumnMatrix{false, 24, 8, 24, 0, 256});
  CHECK(p->batch == 1);
  CHECK_FALSE(p->reads_out);
  CHECK(p->epilogue == MatmulEpilogue::none);
}

TEST_CASE("operands by columns are transposed by the library; rows may have gaps") {
  const auto p =
      problem(view({{8, 24}, {30, 1}}), view({{8, 16}, {1, 9}}), view({{16, 24}, {1, 16}}));
  REQUIRE(p);
  CHECK(p->left == ColumnMatrix{true, 16, 24, 16, 0, 256});
  CHECK(p->right == ColumnMatrix{true, 8, 16, 9, 0, 256});
  CHECK(p->out.leading == 30);
}

TEST_CASE("a result by columns: the product itself") {
  const auto p = problem(view({{8, 24}, {1, 8}}), kA, kB);
  REQUIRE(p);
  CHECK(p->left_is_a);
  CHECK(p->left == ColumnMatrix{true, 16, 8, 16, 0, 256});
  CHECK(p->right == ColumnMatrix{true, 24, 16, 24, 0, 256});
  CHECK(p->out == ColumnMatrix{false, 8, 24, 8, 0, 256});
}

TEST_CASE("products of depth one") {
  const auto p = problem(kOut, view({{8, 1}, {5, 7}}), view({{1, 24}, {9, 2}}));
  REQUIRE(p);
  CHECK(p->right == ColumnMatrix{false, 1, 8, 5, 0, 256});
  CHECK(p->left == ColumnMatrix{true, 1, 24, 2, 0, 256});
}

TEST_CASE("batches have steps, which may be 0 for operands and bound the alignment") {
  const auto p = problem(view({{5, 8, 24}, {193, 24, 1}}), view({{5, 8, 16}, {0, 16, 1}}),
                         view({{5, 16, 24}, {388, 24, 1}}));
  REQUIRE(p);
  CHECK(p->batch == 5);
  CHECK(p->right.batch_stride == 0);
  CHECK(p->right.alignment == 256);
  CHECK(p->left.batch_stride == 388);
  CHECK(p->left.alignment == 16);
  CHECK(p->out.alignment == 4);
}

TEST_CASE("alignments") {
  CHECK(alignment_of(std::uint64_t{0}, 256) == 256);
  CHECK(alignment_of(std::uint64_t{6}, 256) == 2);
  CHECK(alignment_of(std::uint64_t{48}, 256) == 16);
  CHECK(alignment_of(std::uint64_t{1024}, 256) == 256);
  const auto p =
      problem(view({{8, 24}, {24, 1}}, 4), view({{8, 16}, {16, 1}}, 8), view({{16, 24}, {24, 1}}));
  REQUIRE(p);
  CHECK(p->out.alignment == 4);
  CHECK(p->right.alignment == 8);
  CHECK(p->left.alignment == 256);
}

TEST_CASE("problems left to our own kernels") {
  CHECK_FALSE(problem(view({{8, 24}, {24, 1}}, 0, kInt64), view({{8, 16}, {16, 1}}, 0, kInt64),
                      view({{16, 24}, {24, 1}}, 0, kInt64)));
  // Vectors, nothing to add up, no result.
  CHECK_FALSE(problem(view({{1, 24}, {24, 1}}), view({{1, 16}, {16, 1}}), kB));
  CHECK_FALSE(problem(view({{8, 1}, {1, 1}}), kA, view({{16, 1}, {1, 1}})));
  CHECK_FALSE(problem(kOut, view({{8, 0}, {1, 1}}), view({{0, 24}, {24, 1}})));
  CHECK_FALSE(problem(view({{0, 24}, {24, 1}}), view({{0, 16}, {16, 1}}), kB));
  // Gaps in both dimensions, one row repeated, overlapping rows.
  CHECK_FALSE(problem(kOut, view({{8, 16}, {32, 2}}), kB));
  CHECK_FALSE(problem(kOut, view({{8, 16}, {0, 1}}), kB));
  CHECK_FALSE(problem(kOut, view({{8, 16}, {3, 1}}), kB));
  CHECK_FALSE(problem(view({{8, 24}, {48, 2}}), kA, kB));
  // Too many, too large.
  CHECK_FALSE(problem(view({{65536, 8, 24}, {192, 24, 1}}), view({{65536, 8, 16}, {0, 16, 1}}),
                      view({{65536, 16, 24}, {0, 24, 1}})));
  const std::int64_t huge = std::int64_t{1} << 31;
  CHECK_FALSE(problem(view({{huge, 24}, {24, 1}}), view({{huge, 16}, {16, 1}}), kB));
  CHECK_FALSE(problem(kOut, view({{8, 16}, {huge, 1}}), kB));
}

TEST_CASE("epilogues") {
  using E = MatmulEpilogue;
  CHECK(epilogue({.bias = kBias}) == E::bias);
  CHECK(epilogue({.activation = Activation::relu}) == E::relu);
  CHECK(epilogue({.bias = kBias, .activation = Activation::relu}) == E::relu_bias);
  CHECK(epilogue({.activation = Activation::gelu_tanh}) == E::gelu);
  CHECK(epilogue({.bias = kBias, .activation = Activation::gelu_tanh}) == E::gelu_bias);
  CHECK(epilogue({.activation = Activation::gelu_tanh, .before_activation = kOut}) == E::gelu_keep);
  CHECK(epilogue({.bias = kBias, .activation = Activation::gelu_tanh, .before_activation = kOut}) ==
        E::gelu_keep_bias);
  const View bits = view({{8, 16}, {16, 1}}, 0, kUInt8);
  CHECK(epilogue({.activation = Activation::relu, .relu_bits = bits}) == E::relu_keep);
  CHECK(epilogue({.bias = kBias, .activation = Activation::relu, .relu_bits = bits}) ==
        E::relu_keep_bias);
  CHECK(epilogue({.relu_of = kOut, .relu_bits = bits}) == E::relu_gradient);
  const View sums = view({{8}, {1}});
  CHECK(epilogue({.row_sums = sums}) == E::right_sums);
  CHECK(epilogue({.row_sums = sums}, view({{8, 24}, {1, 8}})) == E::left_sums);
}

TEST_CASE("epilogues that cuBLASLt does not have") {
  const View sums = view({{8}, {1}});
  // The exact GELU; a ReLU's input; both kinds at once.
  CHECK_FALSE(epilogue({.activation = Activation::gelu}));
  CHECK_FALSE(epilogue({.activation = Activation::relu, .before_activation = kOut}));
  CHECK_FALSE(epilogue({.bias = kBias, .row_sums = sums}));
  CHECK_FALSE(epilogue({.activation = Activation::relu, .row_sums = sums}));
  // A bias along its columns, with gaps, of another dtype.
  CHECK_FALSE(epilogue({.bias = kBias}, view({{8, 24}, {1, 8}})));
  CHECK_FALSE(epilogue({.bias = view({{24}, {2}})}));
  CHECK_FALSE(epilogue({.bias = view({{24}, {1}}, 0, kFloat64)}));
  CHECK_FALSE(epilogue({.row_sums = view({{8}, {2}})}));
  // A ReLU's result; its bits, unaligned or of a product by columns.
  const View bits = view({{8, 16}, {16, 1}}, 0, kUInt8),
             unaligned = view({{8, 16}, {16, 1}}, 8, kUInt8);
  CHECK_FALSE(epilogue({.relu_of = kOut}));
  CHECK_FALSE(epilogue({.relu_of = kOut, .relu_bits = unaligned}));
  CHECK_FALSE(epilogue({.activation = Activation::relu, .relu_bits = unaligned}));
  CHECK_FALSE(
      epilogue({.activation = Activation::relu, .relu_bits = bits}, view({{8, 24}, {1, 8}})));
  // GELU's argument, unaligned or with unaligned rows.
  const auto keep = [](const View& before) {
    return MatmulOptions{.activation = Activation::gelu_tanh, .before_activation = before};
  };
  CHECK_FALSE(epilogue(keep(view({{8, 24}, {24, 1}}, 8))));
  const View apart = view({{8, 24}, {25, 1}});
  CHECK_FALSE(epilogue(keep(apart), apart));
}

TEST_CASE("a plan's key contains all that it depends on") {
  const auto key = [](const MatmulOptions& options = {}, const MatmulSettings& settings = {},
                      const View& out = kOut, const View& a = kA) {
    const auto p = matmul_problem(out, a, kB, options, settings);
    REQUIRE(p);
    return *p;
  };
  const MatmulProblem plain = key();
  CHECK(key() == plain);
  CHECK(key({.alpha = 3}) == plain);
  CHECK(key({.beta = 1}) != plain);
  CHECK(key({}, {.tf32 = true}) != plain);
  CHECK(key({}, {.measured = true}) != plain);
  CHECK(key({}, {}, view({{8, 24}, {24, 1}}, 4)) != plain);
  CHECK(key({}, {}, kOut, view({{8, 16}, {17, 1}})) != plain);
  CHECK(key({.bias = kBias}) != plain);
  CHECK(key({.bias = kBias}) != key({.bias = view({{24}, {1}}, 4)}));
  // TF32 applies only to float32.
  const auto half = [](bool tf32) {
    return matmul_problem(view({{8, 24}, {24, 1}}, 0, kFloat16),
                          view({{8, 16}, {16, 1}}, 0, kFloat16),
                          view({{16, 24}, {24, 1}}, 0, kFloat16), {}, {.tf32 = tf32});
  };
  CHECK(half(true) == half(false));
}

TEST_CASE("a cache of plans drops the least recently used one") {
  PlanCache<int, int> cache(2);
  CHECK_FALSE(cache.find(1));
  cache.insert(1, std::make_shared<int>(10));
  cache.insert(2, std::make_shared<int>(20));
  const auto held = cache.find(2);
  CHECK(*cache.find(1) == 10);
  cache.insert(3, std::make_shared<int>(30));
  CHECK(cache.size() == 2);
  CHECK_FALSE(cache.find(2));
  CHECK(*held == 20);
  CHECK(*cache.find(1) == 10);
  cache.insert(1, std::make_shared<int>(11));
  CHECK(cache.size() == 2);
  CHECK(*cache.find(1) == 11);
  CHECK(*cache.find(3) == 30);
}
