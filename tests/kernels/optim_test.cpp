#include "ferrite/kernels/optim.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/kernels/adaptive.h"
#include "ferrite/kernels/layerwise.h"
#include "ferrite/tests/kernels/arrays.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;
using kernels::OptimBatch;

namespace {

// ---- Steps

struct Parameter {
  std::int64_t numel;
  bool wide_grad;
  Operand param, grad, state[3], copy, step, scalar;
};

/// Ranges of an optimizer's state.
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

  StepCase(KernelCase& kernel_case, const StateRange (&states)[3], double overflow = 0,
           bool scalar = false, bool mixes = true)
      : c(kernel_case),
        dtype(c.pick({kFloat32, kFloat32, kFloat16, kBFloat16, kFloat64})),
        grad_dtype(dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16}) : dtype),
        copy_dtype(c.pick({kFloat16, kBFloat16})),
        copies(dtype == kFloat32 && c.coin()),
        lr(c, 0.125, kFloat64),
        inv_scale(c, 0.25, kFloat32),
        found_inf(c, overflow, kFloat32) {
    for (const std::int64_t numel : draw_sizes(c)) {
      const bool wide = mixes && grad_dtype != dtype && c.coin();
      Parameter p{
          numel, wide, c.inout({numel}, dtype), c.input({numel}, wide ? dtype : grad_dtype), {}, {},
          {},    {}};
      for (int k = 0; k < 3; ++k)
        if (states[k].used)
          p.state[k] = c.inout({numel}, dtype, {.low = states[k].low, .high = states[k].high});
      if (copies) p.copy = c.inout({numel}, copy_dtype);
      p.step = c.inout(tensor({c.pick<std::int64_t>({0, 1, 2, 3, 9})}), kInt64);
      if (scalar) p.scalar = c.inout({1}, dtype, {.low = 0.25, .high = 0.5});
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
      t.scalar = at(p.scalar).data;
      t.wide_grad = p.wide_grad;
      // The reference is float64, which has no copies.
      t.copy = at.is_reference() ? nullptr : at(p.copy).data;
      b.tensors.push_back(t);
    }
    return b;
  }

  /// `step_loss` is the additional error of parameters.
  void check(double step_loss) {
    // The error of sums with both signs is relative to the terms' size, about 4 here.
    const kit::Tolerance tolerance{.rtol = 2 * test::rounding_of(dtype),
                                   .atol = 4 * (dtype == kFloat64 ? 1e-14 : 1e-6)};
    for (const Parameter& p : parameters) {
      c.check(p.param, {.rtol = tolerance.rtol, .atol = tolerance.atol + step_loss});
      c.check(p.step, {.rtol = 0});
      for (const Operand& state : p.state)
        if (state.number >= 0) c.check(state, tolerance);
      if (p.scalar.number >= 0) c.check(p.scalar, tolerance);
      if (copies && found_inf.host.item<double>() == 0)
        test::check_equal(c.result(p.copy), c.result(p.param).to(copy_dtype));
    }
  }
};

/// Runs one step, sometimes scaled.
template <class Step>
void run_step(StepCase& s, Step&& step, double step_loss = 0) {
  const bool scaled = s.c.coin();
  s.c.run([&](const Stream& stream, const Side& at) { step(stream, s.batch(at, scaled)); });
  s.check(step_loss);
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

TEST_CASE("lars over arrays of all sizes, types and alignments") {
  kit::for_each_case("lars", 60, [](KernelCase& c) {
    const bool momentum = c.coin();
    const kernels::LarsArgs args{.momentum = momentum ? 0.9 : 0,
                                 .dampening = c.coin() ? 0.1 : 0,
                                 .weight_decay = c.coin() ? 0.01 : 0,
                                 .trust_coefficient = c.coin() ? 0.5 : 0.05,
                                 .eps = 1e-8,
                                 .trust_clip = c.coin(),
                                 .nesterov = momentum && c.coin(),
                                 .maximize = c.coin()};
    StepCase s(c, {{momentum, -1, 1}, kUnused, kUnused}, 0, false, false);
    const bool adapts = c.integer(0, 3) != 0;
    run_step(s, [&](const Stream& stream, OptimBatch batch) {
      for (std::size_t i = 0; i < batch.tensors.size(); ++i)
        batch.tensors[i].adapts = adapts || i % 2 == 0;
      kernels::lars(stream, batch, args);
    });
  });
}

TEST_CASE("lamb over arrays of all sizes, types and alignments") {
  kit::for_each_case("lamb", 60, [](KernelCase& c) {
    const kernels::LambArgs args{.beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .eps = 1e-3,
                                 .weight_decay = c.coin() ? 0.01 : 0,
                                 .min_trust_ratio = c.coin() ? 0.3 : 0,
                                 .max_trust_ratio = c.coin() ? 0.6 : double(INFINITY),
                                 .bias_correction = c.coin(),
                                 .maximize = c.coin()};
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, kUnused}, 0, false, false);
    const bool adapts = c.integer(0, 3) != 0;
    // Steps of up to 0.5 are computed from stored moments.
    run_step(
        s,
        [&](const Stream& stream, OptimBatch batch) {
          for (std::size_t i = 0; i < batch.tensors.size(); ++i)
            batch.tensors[i].adapts = adapts || i % 2 == 0;
          kernels::lamb(stream, batch, args);
        },
        itemsize(s.dtype) == 2 ? test::rounding_of(s.dtype) / 2 : 0);
  });
}

TEST_CASE("lion over arrays of all sizes, types and alignments") {
  kit::for_each_case("lion", 60, [](KernelCase& c) {
    // Weights for which no sum of theirs is nearly 0, where rounding would decide about the sign.
    const kernels::LionArgs args{.beta1 = c.coin() ? 0 : 1 - 1e-9,
                                 .beta2 = 0.99,
                                 .weight_decay = c.coin() ? 0.01 : 0,
                                 .maximize = c.coin()};
    StepCase s(c, {{true, -1, 1}, kUnused, kUnused});
    run_step(s, [&](const Stream& stream, const OptimBatch& batch) {
      kernels::lion(stream, batch, args);
    });
  });
}

TEST_CASE("adagrad over arrays of all sizes, types and alignments") {
  kit::for_each_case("adagrad", 60, [](KernelCase& c) {
    const kernels::AdagradArgs args{.lr_decay = c.coin() ? 0.1 : 0,
                                    .weight_decay = c.coin() ? 0.01 : 0,
                                    .initial_accumulator_value = c.coin() ? 0.5 : 0,
                                    .eps = 1e-3,
                                    .maximize = c.coin()};
    StepCase s(c, {{true, 0.25, 1}, kUnused, kUnused});
    run_step(s, [&](const Stream& stream, const OptimBatch& batch) {
      kernels::adagrad(stream, batch, args);
    });
  });
}

TEST_CASE("nadam over arrays of all sizes, types and alignments") {
  kit::for_each_case("nadam", 60, [](KernelCase& c) {
    const kernels::NAdamArgs args{.beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .eps = 1e-3,
                                  .weight_decay = c.coin() ? 0.01 : 0,
                                  .momentum_decay = 4e-3,
                                  .decoupled = c.coin(),
                                  .maximize = c.coin()};
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, kUnused}, 0, true);
    // The product of momenta is stored in the type of the parameters.
    run_step(
        s,
        [&](const Stream& stream, const OptimBatch& batch) { kernels::nadam(stream, batch, args); },
        itemsize(s.dtype) == 2 ? test::rounding_of(s.dtype) / 2 : 0);
  });
}

TEST_CASE("radam over arrays of all sizes, types and alignments") {
  kit::for_each_case("radam", 60, [](KernelCase& c) {
    const kernels::RAdamArgs args{.beta1 = 0.9,
                                  .beta2 = c.coin() ? 0.99 : 0.5,
                                  .eps = 1e-3,
                                  .weight_decay = c.coin() ? 0.01 : 0,
                                  .decoupled = c.coin(),
                                  .maximize = c.coin()};
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, kUnused});
    run_step(
        s,
        [&](const Stream& stream, const OptimBatch& batch) { kernels::radam(stream, batch, args); },
        itemsize(s.dtype) == 2 ? test::rounding_of(s.dtype) : 0);
  });
}

TEST_CASE("momentum on the device replaces the argument") {
  for (const Device& device : kit::test_devices()) {
    const Stream stream = current_stream(device);
    const auto near = [&](const std::vector<double>& values) { return numbers(values, device); };
    const Tensor param = near({1, 2, 3, 4}), grad = near({4, 3, 2, 1}), lr = near({0.5}),
                 momentum = near({0.25});
    const auto run = [&](bool on_device, auto&& kernel) {
      const Tensor p = param.clone(), first = grad.clone(), second = grad.clone(),
                   step = ones({}, {.dtype = kInt64}).to(device);
      OptimBatch batch{.dtype = kFloat64, .lr = lr.data<double>()};
      if (on_device) batch.momentum = momentum.data<double>();
      batch.tensors.push_back({.param = p.data_ptr(),
                               .grad = grad.data_ptr(),
                               .state = {first.data_ptr(), second.data_ptr()},
                               .numel = 4,
                               .step = step.data<std::int64_t>()});
      kernel(batch, on_device ? 0.75 : 0.25);
      return p;
    };
    const auto check = [&](auto&& kernel) {
      const Tensor p = run(true, kernel);
      test::check_equal(p, run(false, kernel));
      CHECK(p.to_vector<double>() != param.to_vector<double>());
    };
    check([&](const OptimBatch& b, double m) { kernels::sgd(stream, b, {.momentum = m}); });
    check([&](const OptimBatch& b, double m) {
      kernels::adam(stream, b, {.beta1 = m, .beta2 = 0.5});
    });
    check([&](const OptimBatch& b, double m) {
      kernels::rmsprop(stream, b, {.alpha = 0.5, .momentum = m});
    });
    check([&](const OptimBatch& b, double m) {
      kernels::lars(stream, b, {.momentum = m, .trust_coefficient = 0.5});
    });
    check([&](const OptimBatch& b, double m) {
      kernels::lamb(stream, b,
                    {.beta1 = m, .beta2 = 0.5, .max_trust_ratio = 9, .bias_correction = true});
    });
  }
}

TEST_CASE("a step changes nothing after an overflow") {
  kit::for_each_case("overflow", 9, [](KernelCase& c) {
    StepCase s(c, {{true, -1, 1}, {true, 0.25, 1}, kUnused}, c.coin() ? 1 : NAN, false, false);
    const int kind = static_cast<int>(c.integer(0, 2));
    // The reference does nothing.
    c.run(
        [&](const Stream& stream, const Side& at) {
          OptimBatch batch = s.batch(at, true);
          if (kind == 0) kernels::adam(stream, batch, {0.9, 0.99, 1e-3, 0.01, false, false, false});
          if (kind == 1) kernels::lamb(stream, batch, {0.9, 0.99, 1e-3, 0.01, 0, 9, true, false});
          for (auto& t : batch.tensors) t.state[1] = nullptr;
          if (kind == 2) kernels::lars(stream, batch, {.momentum = 0.9, .trust_coefficient = 1});
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
