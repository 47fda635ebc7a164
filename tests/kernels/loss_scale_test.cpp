// The kernels of a loss scaler: detection of non-finite values, and updates of the scale.
#include "ferrite/kernels/loss_scale.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/kernels/multi_tensor.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;
using kit::Side;

TEST_CASE("update_scale: grows after the interval, shrinks after an overflow, clears the flags") {
  kit::for_each_case("update_scale", 80, [](KernelCase& c) {
    c.same_dtypes();
    const kernels::UpdateScaleArgs args{.growth_factor = c.pick({2.0, 1.5}),
                                        .backoff_factor = c.pick({0.5, 0.25}),
                                        .growth_interval = c.integer(1, 4)};
    // One launch handles 256 flags.
    const std::int64_t count = c.pick<std::int64_t>({1, 2, 256, 257, 700});
    std::vector<float> flags(static_cast<std::size_t>(count));
    if (c.coin())
      flags[static_cast<std::size_t>(c.integer(0, count - 1))] = c.pick({1.0F, 2.0F, float(NAN)});
    const Operand scale = c.inout(tensor({c.pick({65536.0F, 3.0F, 2e38F, 1e-45F})}), kFloat32),
                  inv_scale = c.output({1}, kFloat32),
                  tracker = c.inout(tensor({c.integer(0, 4)}), kInt64),
                  overflows = c.inout(tensor({c.integer(0, 9)}), kInt64),
                  found = c.inout(from_vector(flags, {count}), kFloat32);
    c.run(
        [&](const Stream& stream, const Side& at) {
          std::vector<float*> pointers;
          for (std::int64_t i = 0; i < count; ++i) pointers.push_back(at(found).as<float>() + i);
          kernels::update_scale(stream,
                                {.scale = at(scale).as<float>(),
                                 .inv_scale = at(inv_scale).as<float>(),
                                 .growth_tracker = at(tracker).as<std::int64_t>(),
                                 .overflows = at(overflows).as<std::int64_t>()},
                                pointers, args);
        },
        [&](const Stream&, const Side& at) {
          float &s = *at(scale).as<float>(), *f = at(found).as<float>();
          auto& good = *at(tracker).as<std::int64_t>();
          bool overflow = false;
          for (std::int64_t i = 0; i < count; ++i) {
            overflow = overflow || f[i] != 0;
            f[i] = 0;
          }
          good = overflow ? 0 : good + 1;
          if (overflow) {
            ++*at(overflows).as<std::int64_t>();
            s = static_cast<float>(s * args.backoff_factor);
          } else if (good >= args.growth_interval) {
            good = 0;
            if (const double grown = s * args.growth_factor; grown < 3.4e38)
              s = static_cast<float>(grown);
          }
          *at(inv_scale).as<float>() = static_cast<float>(1.0 / s);
        });
    for (const Operand& o : {scale, inv_scale, tracker, overflows, found}) c.check(o, {.rtol = 0});
  });
}

TEST_CASE("check_finite finds infinities and NaN at any position") {
  for (const Device& device : kit::test_devices())
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64})
      for (const double bad : {1.0, double(NAN), double(INFINITY), -double(INFINITY)})
        for (const std::int64_t at : {0, 5000, 8192, 19999}) {
          CAPTURE(device.str());
          CAPTURE(bad);
          CAPTURE(at);
          const Tensor host = full({20001}, 3.0, {.dtype = dtype});
          host.narrow(0, at + 1, 1).fill_(bad);
          const Tensor buffer = host.to(device), found = zeros({}).to(device);
          const Tensor aligned = buffer.narrow(0, 0, 20001), shifted = buffer.narrow(0, 1, 20000);
          const Stream stream = current_stream(device);
          for (const Tensor& x : {aligned, shifted}) {
            found.zero_();
            kernels::check_finite(
                stream, {{.arrays = {{nullptr, 0}, {x.data_ptr(), x.numel()}}, .dtype = dtype}},
                found.data<float>());
            CHECK(found.item<double>() == (bad == 1 ? 0 : 1));
            // Among finite arrays of another type.
            const Tensor other = full({9000}, dtype == kFloat32 ? 1.0 : -2.0,
                                      {.dtype = dtype == kFloat32 ? kFloat16 : kFloat32})
                                     .to(device);
            found.zero_();
            kernels::check_finite(
                stream,
                {{.arrays = {{other.data_ptr(), other.numel()}}, .dtype = other.dtype()},
                 {.arrays = {{x.data_ptr(), x.numel()}}, .dtype = dtype}},
                found.data<float>());
            CHECK(found.item<double>() == (bad == 1 ? 0 : 1));
          }
          kernels::check_finite(stream, {}, found.data<float>());
          kernels::check_finite(stream, {{.arrays = {}, .dtype = dtype}}, found.data<float>());
          CHECK(found.item<double>() == (bad == 1 ? 0 : 1));  // unchanged
          test::check_equal(buffer.to(Device("cpu")), host);
        }
}
