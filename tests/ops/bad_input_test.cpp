// What every op makes of input that it cannot take: a typed error, tagged with the op, at once.
// Never a crash, a hang or an exception of the standard library.
#include <doctest/doctest.h>

#include <climits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const Device kWorker("cpu:1");
constexpr DType kAllDTypes[] = {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                                kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

std::vector<Tensor> fresh(const Op& op, DType dtype = kFloat32, const Device& device = {}) {
  return make_inputs(op, dtype, device);
}

/// Calls the op, reads all of its results, and runs backward through them.
void use(const Op& op, std::vector<Tensor> inputs, const Device& device, bool differentiate) {
  if (differentiate)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (op.args[i].fill != Fill::constant && is_floating(inputs[i].dtype()) &&
          !(i == 0 && changes_input(op)))
        inputs[i].set_requires_grad();
  for (const Tensor& out : op.call(inputs, device)) {
    out.to_vector<double>();
    if (out.requires_grad()) sum(out).backward({}, true);
  }
  for (const Tensor& in : inputs)
    if (in.is_leaf() && in.grad().defined()) in.grad().to_vector<double>();
}

/// Nothing may be left for a later synchronize to throw.
void check_synchronized(const std::string& what) {
  const std::string late = outcome([] { synchronize(kWorker); });
  CHECK_MESSAGE(late.empty(), what << " was only refused by the kernel: " << late);
}

}  // namespace

TEST_CASE("undefined tensors") {
  for (const Op& op : op_table()) {
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      std::vector<Tensor> inputs = fresh(op);
      inputs[i] = {};
      const std::string result = outcome([&] { op.call(inputs); });
      if (op.args[i].optional)
        CHECK_MESSAGE(result.empty(), op.name << ", input " << i << ": " << result);
      else
        CHECK_MESSAGE(is_error(result, "ValueError", op.name),
                      op.name << ", input " << i << ": " << result);
    }
  }
}

TEST_CASE("dimensions out of range") {
  int ops = 0;
  for (Op op : op_table()) {
    if (!op.dim) continue;
    ++ops;
    const int dims = static_cast<int>(op.args[0].shape.size()) + op.adds_dim;
    for (const int dim : {dims, -dims - 1, INT_MAX, INT_MIN}) {
      op.dim = dim;
      const std::string result = outcome([&] { op.call(fresh(op)); });
      CHECK_MESSAGE(is_error(result, "IndexError", op.name),
                    op.name << " of " << dim << ": " << result);
    }
  }
  CHECK(ops > 50);
}

TEST_CASE("operands on different devices") {
  for (const Op& op : op_table()) {
    if (op.args.size() < 2) continue;
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      if (op.args[i].any_device || (i == 0 && op.args[1].any_device)) continue;
      std::vector<Tensor> inputs = fresh(op);
      inputs[i] = inputs[i].to(kWorker);
      const std::string result = outcome([&] { op.call(inputs); });
      CHECK_MESSAGE(is_error(result, "DeviceError", op.name),
                    op.name << ", input " << i << ": " << result);
      check_synchronized(op.name);
    }
  }
}

TEST_CASE("an op takes the dtypes that it says, and no others") {
  for (const Op& op : op_table()) {
    for (DType dtype : kAllDTypes) {
      std::vector<Tensor> inputs = fresh(op, dtype, kWorker);
      const std::string what = op.name + " of " + std::string(name(dtype));
      const std::string result = outcome([&] { use(op, inputs, kWorker, false); });
      if (takes(op.takes, dtype))
        CHECK_MESSAGE(result.empty(), what << ": " << result);
      else
        CHECK_MESSAGE(is_error(result, "DTypeError", op.name), what << ": " << result);
      check_synchronized(what);
    }
  }
}

TEST_CASE("one input of another dtype is promoted or refused") {
  for (const Op& op : op_table()) {
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      for (DType dtype : kAllDTypes) {
        std::vector<Tensor> inputs = fresh(op, kFloat32, kWorker);
        inputs[i] = inputs[i].to(dtype);
        const std::string what =
            op.name + ", input " + std::to_string(i) + " of " + std::string(name(dtype));
        const std::string result = outcome([&] { op.call(inputs, kWorker); });
        CHECK_MESSAGE((result.empty() || is_error(result, "", op.name)), what << ": " << result);
        // Floating numbers, bool and integers of fewer than 32 bits are no indices; losses take any
        // integers as classes.
        const bool small = dtype == kInt16 || dtype == kInt8 || dtype == kUInt8;
        if (op.args[i].fill == Fill::index && dtype != kInt64 && dtype != kInt32 &&
            !(small && (op.name.ends_with("_loss") || op.name == "cross_entropy")))
          CHECK_MESSAGE(!result.empty(), what);
        check_synchronized(what);
      }
    }
  }
}

TEST_CASE("other shapes give results or errors, backward too") {
  const std::vector<Shape> shapes{{},
                                  {0},
                                  {1},
                                  {3},
                                  {7},
                                  {2, 0},
                                  {0, 3},
                                  {1, 1},
                                  {5, 7},
                                  {2, 3, 4},
                                  {0, 4, 5},
                                  {2, 0, 5, 6},
                                  {0, 4, 5, 6},
                                  {1, 1, 1, 1},
                                  {2, 4, 5, 6},
                                  {2, 4, 0, 6},
                                  {1, 1, 1, 1, 1, 1, 1, 1},
                                  {2, 1, 2, 1, 2, 1, 2, 1}};
  for (const Op& op : op_table()) {
    for (const Shape& shape : shapes) {
      // The last turn changes all inputs at once.
      for (std::size_t i = 0; i <= op.args.size(); ++i) {
        if (i == op.args.size() && i < 2) continue;
        std::vector<Tensor> inputs = fresh(op);
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          if (k != i && i < op.args.size()) continue;
          Arg arg = op.args[k];
          arg.shape = shape;
          inputs[k] = make_input(arg, kFloat32, {}, static_cast<int>(k));
        }
        const std::string result = outcome([&] { use(op, inputs, {}, true); });
        // What no shape can be is refused by shapes themselves.
        const bool refused = is_error(result, "", op.name) ||
                             is_error(result, "ShapeError", "shape") ||
                             is_error(result, "ShapeError", "memory_format");
        CHECK_MESSAGE((result.empty() || refused),
                      op.name << ", input " << i << " of " << shape.str() << ": " << result);
      }
    }
  }
}

TEST_CASE("indices out of range") {
  for (const Op& op : op_table()) {
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      if (op.args[i].fill != Fill::index) continue;
      for (std::int64_t bad : {op.args[i].limit, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
        // Of these, it counts from the end.
        if (bad == -1 &&
            (op.name.starts_with("index_put") || op.name == "index" || op.name == "take"))
          continue;
        std::vector<Tensor> inputs = fresh(op);
        inputs[i].select(0, 1).fill_(bad);
        const std::string at_once = outcome([&] { op.call(inputs); });
        CHECK_MESSAGE(is_error(at_once, "IndexError", op.name),
                      op.name << " of " << bad << ": " << at_once);
        CHECK(at_once.find(std::to_string(bad)) != std::string::npos);
        // Elsewhere nobody waits to find out.
        for (Tensor& t : inputs) t = t.to(kWorker);
        std::vector<Tensor> results;
        const std::string queued = outcome([&] { results = op.call(inputs, kWorker); });
        CHECK_MESSAGE(queued.empty(), op.name << ": " << queued);
        const std::string late = outcome([] { synchronize(kWorker); });
        CHECK_MESSAGE(is_error(late, "IndexError", op.name), op.name << ": " << late);
      }
    }
  }
}
