// Where tensors are made whose options name no device.
#include <doctest/doctest.h>

#include <thread>

#include "ferrite/core/device.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;

TEST_CASE("factories use the default device where their options name none") {
  const Device there("cpu:1");
  const DefaultDeviceScope scope(there);
  for (const Tensor& t : {zeros({2}),
                          ones(2, 3),
                          full({2}, 7),
                          empty({2}),
                          empty_strided({2}, {1}),
                          rand({2}),
                          randn({2}, kFloat64),
                          randint(5, {2}),
                          randint(0, 5, {2}, kInt32),
                          randperm(4),
                          arange(3),
                          arange(0, 3, 2),
                          arange(0, 3, kFloat32),
                          linspace(0, 1, 3),
                          eye(2),
                          normal(0, 1, {2}),
                          tensor(1.5),
                          tensor({1, 2}),
                          tensor({1.5, 2}, kFloat64),
                          tensor({{1, 2}, {3, 4}}),
                          tensor(std::vector<float>{1, 2}),
                          tensor({{{1.0, 2.0}}}),
                          tensor({1, 2.5}),
                          zeros({2}, requires_grad()),
                          zeros({2}, TensorOptions()),
                          zeros({2}, {.dtype = kInt64}),
                          tril_indices(3, 3)}) {
    CAPTURE(t.describe());
    CHECK(t.device() == there);
  }
  CHECK(tensor({{1, 2}, {3, 4}}).to_vector<int>() == std::vector<int>{1, 2, 3, 4});

  const Tensor elsewhere = zeros({2}, "cpu:0");
  for (const Tensor& t : {elsewhere, zeros_like(elsewhere), elsewhere.new_ones({3}),
                          zeros({2}, elsewhere.options()), rand_like(elsewhere), elsewhere + 1})
    CHECK(t.device() == Device("cpu:0"));
  float memory[2] = {1, 2};
  for (const Tensor& t :
       {zeros({2}, kCPU), tensor({1, 2}, {.dtype = kInt64, .device = kCPU}),
        from_vector<float>({1}, {1}), from_blob(memory, {2}), from_blob(memory, {2}, kFloat32),
        from_blob(memory, {2}, dtype(kFloat32))})
    CHECK(t.device().is_host());
}

TEST_CASE("the default device ends with its scope, and is each thread's own") {
  CHECK(get_default_device().is_host());
  {
    const DefaultDeviceScope outer("cpu:1");
    {
      const DefaultDeviceScope inner("cpu:0");
      CHECK(zeros({1}).device() == Device("cpu:0"));
      set_default_device("cpu:2");
      CHECK(zeros({1}).device() == Device("cpu:2"));
    }
    CHECK(zeros({1}).device() == Device("cpu:1"));
    Device seen("cpu:3");
    std::thread([&] { seen = zeros({1}).device(); }).join();
    CHECK(seen.is_host());
    CHECK(Device(kCPU).is_host());
    CHECK(Device("cpu").is_host());
  }
  CHECK(zeros({1}).device().is_host());
}

TEST_CASE("no op makes tensors of its own on the default device") {
  for (const test::Op& op : test::op_table()) {
    CAPTURE(op.name);
    const auto leaves = [&] { return test::make_leaves(op, kFloat32, Device()); };
    const test::OpRun plain = test::run_op(op, leaves(), Device());
    std::vector<Tensor> weights;
    for (const Tensor& out : plain.outputs) weights.push_back(test::make_weight(out, out.device()));
    const std::vector<Tensor> again = leaves();
    const DefaultDeviceScope scope("cpu:1");
    test::OpRun run;
    CHECK_NOTHROW(run = test::run_op(op, again, Device(), weights));
    CHECK(test::compare(run, plain, 0) == "");
  }
}
