// Tensors without elements. The expectations are PyTorch 1.13's; where ours differ, a comment says
// so.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/outcome.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Without braces, for which clang-format would break every line below.
Tensor z(auto... sizes) { return zeros({static_cast<std::int64_t>(sizes)...}); }
Tensor ids(auto... sizes) {
  return zeros({static_cast<std::int64_t>(sizes)...}, {.dtype = kInt64});
}

struct Shaped {
  Shape expected;
  std::function<Tensor()> call;
};
struct Valued {
  double expected;
  std::function<Tensor()> call;
};
struct Refused {
  const char* op;
  std::function<Tensor()> call;
};

}  // namespace

TEST_CASE("empty tensors: shapes of results") {
  const Shaped calls[] = {
      {{2}, [] { return sum(z(2, 0), {1}); }},
      {{3}, [] { return mean(z(0, 3), {0}); }},
      {{0}, [] { return max(z(0, 2), 1).values; }},
      {{0}, [] { return argmax(z(0, 2), 1); }},
      {{2}, [] { return prod(z(2, 0), 1); }},
      {{2, 0}, [] { return cumsum(z(2, 0), 1); }},
      {{0}, [] { return sort(z(0)).values; }},
      {{2, 0}, [] { return topk(z(2, 0), 0).values; }},
      {{0, 3}, [] { return softmax(z(0, 3), 1); }},
      {{3, 0}, [] { return softmax(z(3, 0), 1); }},
      {{0}, [] { return log_softmax(z(0), 0); }},
      {{0, 2}, [] { return matmul(z(0, 3), z(3, 2)); }},
      {{2, 3}, [] { return matmul(z(2, 0), z(0, 3)); }},
      {{2}, [] { return matmul(z(2, 0), z(0)); }},
      {{0, 2, 4}, [] { return bmm(z(0, 2, 3), z(0, 3, 4)); }},
      {{0, 2}, [] { return linear(z(0, 3), z(2, 3)); }},
      {{2, 3}, [] { return linear(z(2, 0), z(3, 0)); }},
      {{0, 2}, [] { return outer(z(0), z(2)); }},
      {{3, 2}, [] { return addmm(z(2), z(3, 0), z(0, 2)); }},
      {{0, 3, 2, 2}, [] { return conv2d(z(0, 2, 4, 4), z(3, 2, 3, 3)); }},
      {{0, 3, 2}, [] { return conv1d(z(0, 2, 4), z(3, 2, 3)); }},
      {{0, 3, 6, 6}, [] { return conv_transpose2d(z(0, 2, 4, 4), z(2, 3, 3, 3)); }},
      {{0, 2, 2, 2}, [] { return max_pool2d(z(0, 2, 4, 4), 2); }},
      {{0, 2, 2, 2}, [] { return avg_pool2d(z(0, 2, 4, 4), 2); }},
      {{0, 2, 1, 1}, [] { return adaptive_avg_pool2d(z(0, 2, 4, 4), 1); }},
      {{0, 3}, [] { return batch_norm(z(0, 3), {}, {}, {}, {}, true); }},
      {{0, 3, 2, 2}, [] { return batch_norm(z(0, 3, 2, 2), z(3), ones({3})); }},
      {{0, 3}, [] { return layer_norm(z(0, 3), {3}); }},
      {{0, 4, 2}, [] { return group_norm(z(0, 4, 2), 2); }},
      {{3, 0}, [] { return gather(z(3, 0), 1, ids(3, 0)); }},
      {{0, 2}, [] { return gather(z(3, 2), 1, ids(0, 2)); }},
      {{0}, [] { return index_select(z(3), 0, ids(0)); }},
      {{0}, [] { return index_select(z(0), 0, ids(0)); }},
      {{3}, [] { return scatter(z(3), 0, ids(0), z(0)); }},
      {{3}, [] { return index_add(z(3), 0, ids(0), z(0)); }},
      {{0, 1}, [] { return nonzero(z(0)); }},
      {{0}, [] { return masked_select(z(0), z(0).to(kBool)); }},
      {{0}, [] { return masked_fill(z(0), z(0).to(kBool), 1); }},
      {{0, 3}, [] { return one_hot(ids(0), 3); }},
      {{0, 2}, [] { return embedding(ids(0), z(4, 2)); }},
      {{2, 3},
       [] {
         return cat({z(0), z(2, 3)});
       }},
      {{0},
       [] {
         return cat({z(0), z(0)});
       }},
      {{2, 0},
       [] {
         return stack({z(0), z(0)});
       }},
      {{0}, [] { return split(z(0), 2)[0]; }},
      {{0, 2}, [] { return chunk(z(0, 2), 3)[2]; }},
      {{0}, [] { return unbind(z(0, 2), 1)[0]; }},
      {{0, 6},
       [] {
         return repeat(z(0, 2), {2, 3});
       }},
      {{0}, [] { return repeat(z(2), {0}); }},
      {{0, 2}, [] { return flip(z(0, 2), {0}); }},
      {{0}, [] { return roll(z(0), {1}); }},
      {{0, 4},
       [] {
         return pad(z(0, 2), {1, 1});
       }},
      {{0}, [] { return z(0, 3).view({-1}); }},
      {{3, 0},
       [] {
         return z(0, 3).reshape({3, 0});
       }},
      {{4, 0},
       [] {
         return z(1, 0).expand({4, 0});
       }},
      {{0}, [] { return squeeze(z(0), 0); }},
      {{0, 2}, [] { return tril(z(0, 2)); }},
      {{0}, [] { return diagonal(z(0, 2)); }},
      {{0}, [] { return z(0) + z(1); }},
      {{3, 0}, [] { return z(0) * z(3, 1); }},
      {{0}, [] { return where(z(0).to(kBool), z(1), z(1)); }},
      {{0}, [] { return arange(0); }},
      {{0}, [] { return linspace(0, 1, 0); }},
      {{0, 0}, [] { return eye(0); }},
      {{0}, [] { return randperm(0); }},
      {{0}, [] { return dropout(z(0)); }},
      {{1, 0}, [] { return z(0).unfold(0, 0, 1); }},
      {{0}, [] { return clamp(z(0), 0); }},
  };
  for (const Shaped& c : calls) {
    Tensor out;
    const std::string result = outcome([&] { out = c.call(); });
    CHECK_MESSAGE(result.empty(), result);
    if (result.empty()) CHECK(out.shape().str() == c.expected.str());
  }
}

TEST_CASE("empty tensors: what there is of nothing") {
  const Valued calls[] = {
      {0, [] { return sum(z(0)); }},
      {NAN, [] { return mean(z(0)); }},
      {1, [] { return prod(z(0)); }},
      {0, [] { return any(z(0)); }},
      {1, [] { return all(z(0)); }},
      {0, [] { return norm(z(0)); }},
      {NAN, [] { return var(z(0)); }},
      {NAN, [] { return ferrite::std(z(0)); }},
      {0, [] { return matmul(z(0), z(0)); }},
      {NAN, [] { return cross_entropy(z(0, 3), ids(0)); }},
      {0, [] { return cross_entropy(z(0, 3), ids(0), {.reduction = Reduction::sum}); }},
      {NAN, [] { return nll_loss(z(0, 3), ids(0)); }},
      {NAN, [] { return mse_loss(z(0), z(0)); }},
      {NAN, [] { return binary_cross_entropy(z(0), z(0)); }},
  };
  int i = 0;
  for (const Valued& c : calls) {
    CAPTURE(i++);
    const double value = c.call().item<double>();
    CHECK((value == c.expected || (std::isnan(value) && std::isnan(c.expected))));
  }
}

TEST_CASE("empty tensors: what cannot be") {
  const Refused calls[] = {
      {"max", [] { return max(z(0)); }},
      {"max", [] { return max(z(2, 0), 1).values; }},
      {"argmax", [] { return argmax(z(0)); }},
      {"amax", [] { return amax(z(2, 0), {1}); }},
      {"topk", [] { return topk(z(0), 1).values; }},
      // PyTorch's norm of nothing of order infinity is 0 along a dimension.
      {"norm", [] { return norm(z(2, 0), INFINITY, {1}); }},
      {"conv2d", [] { return conv2d(z(1, 2, 0, 4), z(3, 2, 3, 3)); }},
      {"max_pool2d", [] { return max_pool2d(z(1, 0, 4, 4), 2); }},
      {"avg_pool2d", [] { return avg_pool2d(z(1, 2, 0, 4), 2); }},
      // PyTorch normalises rows of no elements.
      {"layer_norm", [] { return layer_norm(z(3, 0), {0}); }},
      {"cross_entropy", [] { return cross_entropy(z(2, 0), ids(2)); }},
      {"index_select", [] { return index_select(z(0), 0, ids(1)); }},
      {"one_hot", [] { return one_hot(ids(0)); }},
      {"pad",
       [] {
         return pad(z(1, 0, 2), {0, 0, 1, 1}, PadMode::reflect);
       }},
      {"pad",
       [] {
         return pad(z(1, 2, 0), {1, 1}, PadMode::replicate);
       }},
      {"view",
       [] {
         return z(0, 3).view({0, -1});
       }},
      {"add", [] { return z(0) + z(2); }},
  };
  for (const Refused& c : calls) {
    const std::string result = outcome(c.call);
    CHECK_MESSAGE(is_error(result, "", c.op), std::string(c.op) << ": " << result);
  }
}
