// Gradients of gradients: of every op of the table by finite differences of its gradients along one
// direction, and of norms and products against PyTorch and by gradcheck.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using In = const std::vector<Tensor>&;

/// The gradients of the op's results in the leaves, one after the other.
std::vector<Tensor> first_gradients(const Op& op, const std::vector<Tensor>& leaves,
                                    bool create_graph) {
  manual_seed(1);
  std::vector<Tensor> inputs = leaves, wanted, found;
  if (changes_input(op)) inputs[0] = leaves[0].clone();
  for (const Tensor& leaf : leaves)
    if (leaf.defined() && leaf.requires_grad()) wanted.push_back(leaf);
  if (wanted.empty()) return {};
  for (const Tensor& out : op.call(inputs)) {
    if (!out.requires_grad()) continue;
    const Tensor weight = make_weight(out, out.device());
    for (const Tensor& g : autograd::grad({&out, 1}, wanted, {&weight, 1}, true, create_graph,
                                          /*allow_unused=*/true))
      found.push_back(g.defined() ? g : zeros({}, {.dtype = kFloat64}));
  }
  return found;
}

/// Of the sum of the gradients, with weights that differ from element to element.
Tensor weighted(const std::vector<Tensor>& gradients) {
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor part = sum(g * make_input({g.shape()}, kFloat64, {}, 9));
    total = total.defined() ? total + part : part;
  }
  return total;
}

/// "" where the derivative of the gradients along a direction is what finite differences say.
std::string check_along_a_direction(const Op& op, bool& is_constant) {
  constexpr double kStep = 1e-5;
  const std::vector<Tensor> leaves = make_leaves(op, kFloat64, {});
  std::vector<Tensor> moving, directions;
  for (const Tensor& leaf : leaves)
    if (leaf.defined() && leaf.requires_grad()) {
      moving.push_back(leaf);
      directions.push_back(
          make_input({leaf.shape()}, kFloat64, {}, 20 + static_cast<int>(moving.size())));
    }
  const std::vector<Tensor> gradients = first_gradients(op, leaves, true);
  const Tensor total = weighted(gradients);
  is_constant = !total.defined() || !total.requires_grad();
  double analytic = 0;
  if (!is_constant) {
    const std::vector<Tensor> second =
        autograd::grad({&total, 1}, moving, {}, false, false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < moving.size(); ++i)
      if (second[i].defined()) analytic += sum(second[i] * directions[i]).item<double>();
  }
  const auto at = [&](double step) {
    const NoGradGuard guard;
    for (std::size_t i = 0; i < moving.size(); ++i)
      moving[i].copy_(moving[i] + directions[i] * step);
    Tensor value;
    {
      const EnableGradGuard recording;
      value = weighted(first_gradients(op, leaves, false));
    }
    for (std::size_t i = 0; i < moving.size(); ++i)
      moving[i].copy_(moving[i] - directions[i] * step);
    return value.defined() ? value.item<double>() : 0;
  };
  const double numeric = (at(kStep) - at(-kStep)) / (2 * kStep);
  const double error = std::abs(analytic - numeric);
  if (error <= 1e-4 + 1e-4 * std::abs(numeric)) return "";
  if (std::isnan(analytic) && std::isnan(numeric)) return "";  // outside of the function's domain
  return fmt::format("the tape says {}, finite differences say {}", analytic, numeric);
}

}  // namespace

TEST_CASE("every op that is differentiated is so twice") {
  const std::set<std::string> none{
      // PyTorch has none either.
      "ctc_loss",
      // The table's matrices are nearly singular; functions_test.cpp has others.
      "linalg_solve", "linalg_inv", "linalg_slogdet", "linalg_matrix_power",
      // They read one triangle, and have the gradient of both, unlike finite differences.
      "linalg_eigh", "linalg_eigvalsh"};
  int twice = 0;
  for (const Op& op : op_table()) {
    if (!takes(op.takes, kFloat64) || none.contains(op.name)) continue;
    bool is_constant = false;
    std::string result;
    const std::string refusal = outcome([&] { result = check_along_a_direction(op, is_constant); });
    CHECK_MESSAGE((refusal + result).empty(), op.name << ": " << refusal << result);
    twice += !is_constant;
  }
  CHECK(twice > 100);
}

TEST_CASE("second derivatives of norms and products are PyTorch's") {
  const Golden golden("norm_twice");
  const Tensor mean = golden.get("running", "mean"), var = golden.get("running", "var");
  const auto optional = [](In in, std::size_t i) { return i < in.size() ? in[i] : Tensor(); };
  const auto check = [&](const std::string& name, const autograd::GradcheckFunction& f) {
    CAPTURE(name);
    std::vector<Tensor> in;
    for (const char* part : {"x", "w", "b"})
      if (golden.has(name, part)) in.push_back(golden.get(name, part).clone().set_requires_grad());
    const Tensor out = f(in);
    const Tensor weight = (arange(0, out.numel(), 1, {.dtype = kFloat64}) + 1).reshape(out.shape());
    Tensor squares;
    for (const Tensor& g : autograd::grad({&out, 1}, in, {&weight, 1}, true, true))
      squares = squares.defined() ? squares + sum(g * g) : sum(g * g);
    std::vector<Tensor> second(in.size());
    if (squares.requires_grad())
      second = autograd::grad({&squares, 1}, in, {}, false, false, /*allow_unused=*/true);
    const char* const names[] = {"dx", "dw", "db"};
    for (std::size_t i = 0; i < in.size(); ++i) {
      // What does not enter a gradient has none, or 0.
      const Tensor none = zeros_like(in[i]);
      check_close(second[i].defined() ? second[i] : none,
                  golden.has(name, names[i]) ? golden.get(name, names[i]) : none, 1e-10, 1e-8);
    }
    CHECK(autograd::gradcheck(f, in, {.atol = 1e-4, .second_order = true}));
  };
  for (const bool training : {true, false})
    for (const bool affine : {true, false}) {
      const std::string end = std::string(training ? "_train" : "_eval") + (affine ? "" : "_plain");
      check("batch" + end, [&](In in) {
        return batch_norm(in[0], mean.clone(), var.clone(), optional(in, 1), optional(in, 2),
                          training);
      });
      check("instance" + end, [&](In in) {
        return instance_norm(in[0], mean.clone(), var.clone(), optional(in, 1), optional(in, 2),
                             {.use_input_stats = training});
      });
    }
  for (const char* end : {"", "_plain"}) {
    const auto name = [&](const char* begin) { return std::string(begin) + end; };
    check(name("layer"), [&](In in) {
      return layer_norm(in[0], {2, 2}, optional(in, 1), optional(in, 2));
    });
    check(name("rms"), [&](In in) { return rms_norm(in[0], {2, 2}, optional(in, 1), 1e-3); });
    check(name("group"),
          [&](In in) { return group_norm(in[0], 2, optional(in, 1), optional(in, 2)); });
  }
  for (int zeros = 0; zeros < 4; ++zeros) {
    check(fmt::format("prod_{}", zeros), [](In in) { return prod(in[0]); });
    check(fmt::format("prod_dim_{}", zeros), [](In in) { return prod(in[0], 1); });
  }
}

TEST_CASE("first derivatives with create_graph are those without") {
  const Tensor x = make_input({{3, 4, 5}}, kFloat64, {}), w = make_input({{4}}, kFloat64, {}, 1),
               b = make_input({{4}}, kFloat64, {}, 2);
  for (const Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor inputs[] = {x, w, b};
  const auto gradients = [&](const Tensor& out, bool create_graph) {
    const Tensor weight = make_weight(out, {});
    return autograd::grad({&out, 1}, inputs, {&weight, 1}, true, create_graph, true);
  };
  const auto check = [&](const Tensor& out) {
    const auto plain = gradients(out, false), graph = gradients(out, true);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      REQUIRE(plain[i].defined() == graph[i].defined());
      if (plain[i].defined()) check_close(graph[i], plain[i], 1e-12, 1e-12);
    }
  };
  check(batch_norm(x, {}, {}, w, b, true));
  check(group_norm(x, 2, w, b));
  check(layer_norm(x, {5}));
  check(prod(x, 1));
}
