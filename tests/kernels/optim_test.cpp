#include "kernels/optim.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ops/creation.h"
#include "tests/kit/kernel_case.h"
#include "tests/support/close.h"

using namespace ferrite;
using kernels::FlatTensors;
using kernels::OptimBatch;
using kit::KernelCase;
using kit::Operand;
using kit::Side;

namespace {

// Sizes about the kernels' packs and chunks; in a few cases more arrays than one launch takes.
std::vector<std::int64_t> draw_sizes(KernelCase& c) {
  std::vector<std::int64_t> sizes;
  if (c.integer(0, 9) == 0) {
    for (std::int64_t n = c.integer(60, 210); n > 0; --n) sizes.push_back(c.integer(0, 9));
  } else {
    for (std::int64_t n = c.integer(1, 4); n > 0; --n)
      sizes.push_back(c.coin() ? c.size(9000) : c.pick({0, 1, 3, 4095, 4096, 4097, 8191, 8193}));
  }
  return sizes;
}

Tensor numbers(const std::vector<double>& values, const Device& device) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}).to(device);
}

/// What float16 loses where it is subnormal.
constexpr double kHalfStep = 3e-8;

/// One number that kernels read, near them.
struct Control {
  Tensor tested, host;
  Control(KernelCase& c, double value, DType dtype)
      : tested(full({}, value, {.dtype = dtype}).to(c.device())),
        host(full({}, value, {.dtype = dtype})) {
    synchronize(c.device());  // the kit runs kernels on streams of its own
  }
  template <class T>
  T* at(const Side& side) const {
    return (side.is_reference() ? host : tested).data<T>();
  }
};

// ---- Steps

struct Parameter {
  std::int64_t numel;
  Operand param, grad, state[3], copy, step;
};

/// What the state of an optimizer may hold.
struct StateRange {
  bool used;
  double low, high;
};

struct StepCase {
  KernelCase& c;
  DType dtype, grad_dtype, copy_dtype;
  bool copies;
  std::vector<Parameter> parameters;
  Control lr, inv_scale, found_inf;

  StepCase(KernelCase& kernel_case, const StateRange (&states)[3], double overflow = 0)
      : c(kernel_case),
        dtype(c.pick({kFloat32, kFloat32, kFloat16, kBFloat16, kFloat64})),
        grad_dtype(dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16}) : dtype),
        copy_dtype(c.pick({kFloat16, kBFloat16})),
        copies(dtype == kFloat32 && c.coin()),
        lr(c, 0.125, kFloat64),
        inv_scale(c, 0.25, kFloat32),
        found_inf(c, overflow, kFloat32) {
    for (const std::int64_t numel : draw_sizes(c)) {
      Parameter p{numel, c.inout({numel}, dtype), c.input({numel}, grad_dtype), {}, {}, {}};
      for (int k = 0; k < 3; ++k)
        if (states[k].used)
          p.state[k] = c.inout({numel}, dtype, {.low = states[k].low, .high = states[k].high});
      if (copies) p.copy = c.inout({numel}, copy_dtype);
      p.step = c.inout(tensor({c.integer(0, 3)}), kInt64);
      parameters.push_back(p);
    }
  }

  OptimBatch batch(const Side& at, bool scaled) const {
    OptimBatch b{.dtype = at.dtype(dtype), .copy_dtype = copy_dtype, .lr = lr.at<double>(at)};
    if (grad_dtype != dtype && !at.is_reference()) b.grad_dtype = grad_dtype;
    if (scaled) {
      b.inv_scale = inv_scale.at<float>(at);
      b.found_inf = found_inf.at<float>(at);
    }
    for (const Parameter& p : parameters) {
      kernels::OptimTensor t{.param = at(p.param).data,
                             .grad = at(p.grad).data,
                             .numel = p.numel,
                             .step = at(p.step).as<std::int64_t>()};
      for (int k = 0; k < 3; ++k) t.state[k] = at(p.state[k]).data;
      // The reference is float64, which has no copies.
      t.copy = at.is_reference() ? nullptr : at(p.copy).data;
      b.tensors.push_back(t);
    }
    return b;
  }

  void check() {
    // Sums of terms of either sign lose what they lose to the terms' size, about 4 here.
    const kit::Tolerance tolerance{.rtol = 2 * test::rounding_of(dtype),
                                   .atol = 4 * (dtype == kFloat64 ? 1e-14 : 1e-6)};
    for (const Parameter& p : parameters) {
      c.check(p.param, tolerance);
      c.check(p.step, {.rtol = 0});
      for (const Operand& state : p.state)
        if (state.number >= 0) c.check(state, tolerance);
      if (copies && found_inf.host.item<double>() == 0)
        test::check_equal(c.result(p.copy), c.result(p.param).to(copy_dtype));
    }
  }
};

/// Runs one step, some of the time scaled.
template <class Step>
void run_step(StepCase& s, Step&& step) {
  const bool scaled = s.c.coin();
  s.c.run([&](const Stream& stream, const Side& at) { step(stream, s.batch(at, scaled)); });
  s.check();
}

constexpr StateRange kUnused{false, 0, 0};

}  // namespace

TEST_CASE("sgd over arrays of all sizes, types and alignments") {
  kit::for_each_case("sgd", 60, [](KernelCase& c) {
    const bool momentum = c.coin();
    const kernels::SgdArgs args{.momentum = momentum ? 0.9 : 0,
                                .dampening = c.coin() ? 0.1 : 0,
                                .weight_decay = c.coin() ? 0.01 : 0,
                                .nesterov = momentum && c.coin(),
                                .maximize = c.coin()};
    StepCase s(c, {{momentum, -1, 1}, kUnused, kUnused});
    run_step(s, [&](const Stream& stream, const OptimBatch& batch) {
      kernels::sgd(stream, batch, args);
    });
  });
}

TEST_CASE("adam over arrays of all sizes, types and alignments") {
  kit::for_each_case("adam", 60, [](KernelCase& c) {
    const bool amsgrad = c.coin();
    const kernels::AdamArgs args{.beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .eps = 1e-3,
                                 .weight_decay = c.coin() ? 0.01 : 0,
                                 .decoupled = c.coin(),
                                 .amsgrad = amsgrad,
                                 .maximize = c.coin()};
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, {amsgrad, 0.25, 1}});
    run_step(s, [&](const Stream& stream, const OptimBatch& batch) {
      kernels::adam(stream, batch, args);
    });
  });
}

TEST_CASE("rmsprop over arrays of all sizes, types and alignments") {
  kit::for_each_case("rmsprop", 60, [](KernelCase& c) {
    const bool momentum = c.coin(), centered = c.coin();
    const kernels::RmspropArgs args{.alpha = 0.9,
                                    .eps = 1e-3,
                                    .weight_decay = c.coin() ? 0.01 : 0,
                                    .momentum = momentum ? 0.9 : 0,
                                    .centered = centered,
                                    .maximize = c.coin()};
    StepCase s(c, {{true, 1, 2}, {momentum, -1, 1}, {centered, -0.25, 0.25}});
    run_step(s, [&](const Stream& stream, const OptimBatch& batch) {
      kernels::rmsprop(stream, batch, args);
    });
  });
}

TEST_CASE("where an overflow was found a step changes nothing") {
  kit::for_each_case("overflow", 6, [](KernelCase& c) {
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, kUnused}, c.coin() ? 1 : NAN);
    // The reference does nothing at all.
    c.run(
        [&](const Stream& stream, const Side& at) {
          kernels::adam(stream, s.batch(at, true), {0.9, 0.99, 1e-3, 0.01, false, false, false});
        },
        [](const Stream&, const Side&) {});
    for (const Parameter& p : s.parameters) {
      c.check(p.param);
      c.check(p.state[0]);
      c.check(p.state[1]);
      c.check(p.step, {.rtol = 0});
      if (s.copies) c.check(p.copy);
    }
  });
}

TEST_CASE("adam's largest second moment keeps NaN; a step of no parameters is one") {
  for (const Device& device : kit::test_devices()) {
    const Stream stream = current_stream(device);
    const auto near = [&](const std::vector<double>& values) { return numbers(values, device); };
    const Tensor param = near({1, 1, 1}), grad = near({0, 0, NAN}), first = near({0, 0, 0}),
                 second = near({4, 1, 1}), largest = near({1, NAN, 9}), lr = near({0.5}),
                 step = zeros({}, {.dtype = kInt64}).to(device);
    OptimBatch batch{.dtype = kFloat64, .lr = lr.data<double>()};
    const kernels::AdamArgs args{0.5, 0.5, 0, 0, false, true, false};
    kernels::adam(stream, batch, args);
    batch.tensors.push_back({.param = param.data_ptr(),
                             .grad = grad.data_ptr(),
                             .state = {first.data_ptr(), second.data_ptr(), largest.data_ptr()},
                             .numel = 3,
                             .step = step.data<std::int64_t>()});
    kernels::adam(stream, batch, args);
    test::check_close(largest, {2, NAN, NAN});
    test::check_close(param, {1, NAN, NAN});
  }
}

// ---- Many arrays in one pass

namespace {

struct FlatCase {
  std::vector<Operand> operands;
  std::vector<std::int64_t> sizes;
  DType dtype;

  FlatTensors at(const Side& side) const {
    FlatTensors tensors{.arrays = {}, .dtype = side.dtype(dtype)};
    for (std::size_t i = 0; i < operands.size(); ++i)
      tensors.arrays.push_back({side(operands[i]).data, sizes[i]});
    return tensors;
  }
  void check(KernelCase& c, const kit::Tolerance& tolerance = {}) const {
    for (const Operand& operand : operands) c.check(operand, tolerance);
  }
};

template <class Make>
FlatCase flat(const std::vector<std::int64_t>& sizes, DType dtype, Make&& make) {
  FlatCase f{{}, sizes, dtype};
  for (const std::int64_t numel : sizes) f.operands.push_back(make(Shape{numel}, dtype));
  return f;
}
FlatCase flat_inout(KernelCase& c, DType dtype) {
  return flat(draw_sizes(c), dtype,
              [&](const Shape& shape, DType type) { return c.inout(shape, type); });
}
FlatCase flat_input(KernelCase& c, DType dtype, double low = -2) {
  return flat(draw_sizes(c), dtype,
              [&](const Shape& shape, DType type) { return c.input(shape, type, {.low = low}); });
}

}  // namespace

TEST_CASE("arrays are cleared, scaled and clamped") {
  kit::for_each_case("zero_all", 25, [](KernelCase& c) {
    const FlatCase f = flat_inout(c, c.pick({kFloat32, kFloat16, kFloat64, kInt64, kUInt8, kBool}));
    c.run([&](const Stream& stream, const Side& at) { kernels::zero_all(stream, f.at(at)); });
    for (std::size_t i = 0; i < f.operands.size(); ++i)
      c.check_values(f.operands[i], std::vector<double>(static_cast<std::size_t>(f.sizes[i])));
  });
  kit::for_each_case("scale_all", 25, [](KernelCase& c) {
    const FlatCase f = flat_inout(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    const Control factor(c, c.pick({1.0, 0.3}), kFloat64);
    c.run([&](const Stream& stream, const Side& at) {
      kernels::scale_all(stream, f.at(at), at.is_reference() ? factor.host : factor.tested);
    });
    f.check(c, {.atol = kHalfStep});
  });
  kit::for_each_case("clamp_all", 25, [](KernelCase& c) {
    const FlatCase f = flat_inout(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    c.run(
        [&](const Stream& stream, const Side& at) { kernels::clamp_all(stream, f.at(at), 0.75); });
    f.check(c, {.rtol = 0});
  });
}

TEST_CASE("arrays are unscaled between types, and what is not finite is found") {
  kit::for_each_case("unscale_all", 60, [](KernelCase& c) {
    const DType from_dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const DType to_dtype = from_dtype == kFloat64   ? kFloat64
                           : from_dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16})
                                                    : c.pick({kFloat32, from_dtype});
    const FlatCase from = flat_input(c, from_dtype);
    const FlatCase to = flat(from.sizes, to_dtype, [&](const Shape& shape, DType dtype) {
      return c.output(shape, dtype);
    });
    const Control inv_scale(c, 0.3, kFloat32), found_inf(c, 0, kFloat32);
    const bool scales = c.coin();
    c.run([&](const Stream& stream, const Side& at) {
      kernels::unscale_all(stream, to.at(at), from.at(at),
                           scales ? inv_scale.at<float>(at) : nullptr, found_inf.at<float>(at));
    });
    to.check(c, {.atol = kHalfStep});
    CHECK(found_inf.tested.item<double>() == 0);
  });
  for (const Device& device : kit::test_devices())
    for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)})
      for (const std::int64_t at : {0, 5000, 8192, 19999}) {
        const Tensor x = ones({20000}), found = zeros({}).to(device);
        x.data<float>()[at] = static_cast<float>(bad);
        const Tensor y = x.to(device);
        const FlatTensors arrays{.arrays = {{y.data_ptr(), y.numel()}}};
        kernels::unscale_all(current_stream(device), arrays, arrays, nullptr, nullptr);
        CHECK(found.item<double>() == 0);
        kernels::unscale_all(current_stream(device), arrays, arrays, nullptr, found.data<float>());
        CHECK(found.item<double>() == 1);
        test::check_equal(y.to(Device("cpu")), x);
      }
}

// ---- Norms

TEST_CASE("sums of powers and norms, of each array and of all") {
  kit::for_each_case("norms", 60, [](KernelCase& c) {
    const FlatCase f = flat_input(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    const double p = c.pick({2.0, 1.0, 3.0, double(INFINITY)});
    const auto count = static_cast<std::int64_t>(f.sizes.size());
    const Operand each = c.output({count}, kFloat64), all = c.output({}, kFloat64),
                  sum = c.output({}, kFloat64);
    const bool with_all = c.coin();
    c.run([&](const Stream& stream, const Side& at) {
      kernels::norms(stream, f.at(at), p, at(each), with_all ? at(all) : kernels::View());
      kernels::sum_of_powers(stream, f.at(at), p, at(sum));
    });
    // Sums of up to 40,000 terms in float64.
    c.check(each, {.rtol = 1e-13});
    c.check(sum, {.rtol = 1e-13});
    if (with_all) c.check(all, {.rtol = 1e-13});
  });
}

TEST_CASE("a norm has the same bits wherever its array lies") {
  for (const Device& device : kit::test_devices()) {
    manual_seed(2);
    const Tensor values = randn({20001});
    double bits[2];
    for (int shift : {0, 1}) {
      const Tensor host = zeros({20002});
      host.narrow(0, shift, 20001).copy_(values);
      const Tensor buffer = host.to(device), x = buffer.narrow(0, shift, 20001);
      const Tensor out = zeros({}, {.dtype = kFloat64}).to(device);
      kernels::sum_of_powers(current_stream(device), {.arrays = {{x.data_ptr(), x.numel()}}}, 2,
                             out);
      bits[shift] = out.item<double>();
    }
    CHECK(bits[0] == bits[1]);
  }
}

TEST_CASE("NaN in a norm, and the scale that clips it") {
  for (const Device& device : kit::test_devices()) {
    const Stream stream = current_stream(device);
    const Tensor x = tensor({3.F, float(NAN), 4.F, float(INFINITY)}).to(device);
    const auto number = [&] { return zeros({}, {.dtype = kFloat64}).to(device); };
    for (const double p : {1.0, 2.0, double(INFINITY)}) {
      const Tensor sum = number();
      kernels::sum_of_powers(stream, {.arrays = {{x.data_ptr(), 4}}}, p, sum);
      CHECK(std::isnan(sum.item<double>()));
    }
    const auto clipped = [&](const std::vector<double>& sums, double p, double max_norm) {
      const Tensor all = numbers(sums, device), norm = number(), scale = number();
      std::vector<const double*> pointers;
      for (std::size_t i = 0; i < sums.size(); ++i) pointers.push_back(all.data<double>() + i);
      kernels::clip_scale(stream, pointers, p, max_norm, norm, scale);
      return std::vector<double>{norm.item<double>(), scale.item<double>()};
    };
    const std::vector<double> many(300, 0.03);  // more than one launch takes; adds up to 9
    for (const auto& [sums, p, norm] : {std::tuple{std::vector<double>{9, 16}, 2.0, 5.0},
                                        {{9, 16}, 1.0, 25.0},
                                        {{9, 16}, double(INFINITY), 16.0},
                                        {{1, 7}, 3.0, 2.0},
                                        {{}, 2.0, 0.0},
                                        {many, 2.0, 3.0}}) {
      const auto got = clipped(sums, p, 1.5);
      CHECK(got[0] == doctest::Approx(norm).epsilon(1e-12));
      CHECK(got[1] == doctest::Approx(std::min(1.0, 1.5 / (norm + 1e-6))).epsilon(1e-12));
    }
    CHECK(clipped({4}, 2, 7)[1] == 1);
    CHECK(std::isnan(clipped({NAN}, 2, 7)[1]));
  }
}
