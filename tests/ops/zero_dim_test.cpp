// Operations of a tensor and a 0-dimensional one, all pairs of dtypes, against PyTorch.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr DType kDTypes[] = {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                             kInt32,   kUInt8,   kBool,     kInt16,   kInt8};
constexpr int kRefused = 255;

using T = const Tensor&;
using TwoTensors = std::function<Tensor(T, T)>;

const std::map<std::string, TwoTensors> kOps = {
    {"add", [](T a, T b) { return add(a, b); }},
    {"sub", [](T a, T b) { return sub(a, b); }},
    {"mul", [](T a, T b) { return mul(a, b); }},
    {"div", [](T a, T b) { return div(a, b); }},
    {"pow", [](T a, T b) { return pow(a, b); }},
    {"atan2", [](T a, T b) { return atan2(a, b); }},
    {"maximum", [](T a, T b) { return maximum(a, b); }},
    {"minimum", [](T a, T b) { return minimum(a, b); }},
    {"floor_divide", [](T a, T b) { return floor_divide(a, b); }},
    {"remainder", [](T a, T b) { return remainder(a, b); }},
    {"fmod", [](T a, T b) { return fmod(a, b); }},
    {"eq", [](T a, T b) { return eq(a, b); }},
    {"lt", [](T a, T b) { return lt(a, b); }},
    {"ge", [](T a, T b) { return ge(a, b); }},
    {"logical_and", [](T a, T b) { return logical_and(a, b); }},
    {"where",
     [](T a, T b) {
       const Tensor first = a.dim() ? a : b;
       return where(tensor({true, false, true, false}, {.dtype = kBool, .device = first.device()}),
                    a, b);
     }},
    {"add_", [](T a, T b) { return a.clone().add_(b); }},
    {"sub_", [](T a, T b) { return a.clone().sub_(b); }},
    {"mul_", [](T a, T b) { return a.clone().mul_(b); }},
    {"div_", [](T a, T b) { return a.clone().div_(b); }},
    {"pow_", [](T a, T b) { return pow_(a.clone(), b); }},
};

std::optional<Tensor> attempt(const TwoTensors& f, T a, T b) {
  try {
    return f(a, b);
  } catch (const DTypeError&) {
    return {};
  }
}

/// Results that are wanted where PyTorch refuses.
bool computes_here_alone(const std::string& op, DType a, DType b) {
  return op.starts_with("sub") && (a == kBool) != (b == kBool);
}

}  // namespace

TEST_CASE("dtypes and values beside a 0-dimensional tensor, on every device") {
  const Golden golden("zero_dim");
  const Tensor dims = golden.get("operands", "dims"), zeros = golden.get("operands", "zero");
  const Tensor integers = golden.get("operands", "integers");
  for (const Device& device : host_and_cuda())
    for (const auto& [name, f] : kOps)
      for (const bool zero_first : {false, true}) {
        if (zero_first && name.ends_with("_")) continue;
        const std::string recorded = zero_first ? "zero_" + name : name;
        const std::vector<int> dtypes = golden.get(recorded, "dtypes").to_vector<int>();
        const Tensor values = golden.get(recorded, "values");
        for (int i = 0; i < 100; ++i) {
          const DType da = kDTypes[i / 10], db = kDTypes[i % 10];
          const auto row = [&](DType d) { return is_floating(d) ? dims : integers; };
          const Tensor a = (zero_first ? zeros[i / 10] : row(da)).to(device, da);
          const Tensor b = (zero_first ? row(db) : zeros[i % 10]).to(device, db);
          INFO(device.str(), " ", recorded, " ", da, " ", db);
          const std::optional<Tensor> out = attempt(f, a, b);
          const int expected = dtypes[static_cast<std::size_t>(i)];
          if (expected == kRefused && computes_here_alone(name, da, db)) continue;
          REQUIRE((out ? static_cast<int>(out->dtype()) : kRefused) == expected);
          if (!out) continue;
          // Where the 0-dimensional factor comes first PyTorch rounds it on a CPU, and not on CUDA.
          const bool factor = name == "mul" || name == "div";
          if (zero_first && factor && itemsize(out->dtype()) == 2) {
            const Tensor row_rounded = b.to(out->dtype()).to(kFloat32);
            check_equal(*out, f(a.to(kFloat32), row_rounded).to(out->dtype()));
            continue;
          }
          // Functions are within some units in the last place, and all else to the bit. PyTorch
          // rounds the quotient of 16-bit numbers before it floors it.
          const bool function =
              name.starts_with("pow") || name == "atan2" || name == "floor_divide";
          check_close(*out, values[i].to_vector<double>(),
                      function ? rounding_of(out->dtype()) : 0);
        }
      }
}

TEST_CASE("gradients through a factor that float16 does not hold") {
  const Golden golden("zero_dim");
  for (const Device& device : host_and_cuda())
    for (const std::string name : {"mul", "div"}) {
      const std::string recorded = "gradient_" + name;
      const Tensor x = tensor({0.001, -2.0}, {.dtype = kFloat16, .device = device});
      const Tensor y = full({}, 131072, {.device = device});
      x.set_requires_grad(), y.set_requires_grad();
      const Tensor out = kOps.at(name)(x, y);
      out.backward(tensor({0.0009765625, 2.0}, {.dtype = kFloat16, .device = device}));
      check_equal(out.detach(), golden.get(recorded, "out"));
      check_equal(x.grad(), golden.get(recorded, "x_grad"));
      check_equal(y.grad(), golden.get(recorded, "y_grad"));
    }
}
