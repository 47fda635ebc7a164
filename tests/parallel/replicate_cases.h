// Modules on several devices, against one device that computes everything.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/parallel/data_parallel/replicate.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

/// Forwards to another comm, and reports every call.
class TellingComm : public parallel::dp::DeviceComm {
 public:
  TellingComm(std::shared_ptr<parallel::dp::DeviceComm> comm,
              std::function<void(const std::string&, std::size_t)> tell)
      : DeviceComm(comm->devices()), comm_(std::move(comm)), tell_(std::move(tell)) {}

  std::string_view backend() const override { return comm_->backend(); }
  std::vector<std::vector<Tensor>> broadcast(std::span<const Tensor> tensors) override {
    tell_("broadcast", tensors.size());
    return comm_->broadcast(tensors);
  }
  std::vector<Tensor> reduce_add(std::span<const std::vector<Tensor>> parts, int first) override {
    tell_("reduce_add", parts[0].size());
    return comm_->reduce_add(parts, first);
  }

 private:
  const std::shared_ptr<parallel::dp::DeviceComm> comm_;
  const std::function<void(const std::string&, std::size_t)> tell_;
};

/// Every kind of tensor: used once, used twice, shared by two modules, frozen, unused, of another
/// dtype, in a batch norm; buffers of all dtypes.
struct AllKinds : nn::Cloneable<AllKinds> {
  AllKinds() {
    register_module("in", in);
    register_module("norm", norm);
    register_module("mid", mid);
    tied.weight = mid.weight;
    register_module("tied", tied);
    register_module("frozen", frozen);
    register_module("out", out);
    register_parameter("unused", unused);
    register_parameter("wide", wide);
    register_buffer("offset", offset);
    register_buffer("count", count);
    register_buffer("flags", flags, false);
    frozen.requires_grad_(false);
    ++alive;
  }
  AllKinds(const AllKinds& o)
      : Cloneable(o),
        in(o.in),
        mid(o.mid),
        tied(o.tied),
        frozen(o.frozen),
        out(o.out),
        norm(o.norm),
        unused(o.unused),
        wide(o.wide),
        offset(o.offset),
        count(o.count),
        flags(o.flags) {
    ++alive;
  }
  ~AllKinds() override { --alive; }

  Tensor forward(const Tensor& x) override {
    Tensor h = tanh(norm(in(x)));
    h = tanh(tied(tanh(mid(h)))) + frozen(h) * offset;
    return out(h) * wide.to(h.dtype());
  }

  inline static std::atomic<int> alive = 0;
  nn::Linear in{4, 6}, mid{6, 6}, tied{6, 6}, frozen{6, 6}, out{6, 3};
  nn::BatchNorm1d norm{6};
  Tensor unused = ones({5});
  Tensor wide = full({3}, 1.25, {.dtype = kFloat64});
  Tensor offset = full({6}, 0.5);
  Tensor count = from_vector(std::vector<std::int64_t>{3, 4, 5}, {3});
  Tensor flags = from_vector(std::vector<bool>{true, false, true}, {3});
};

inline std::vector<Tensor> inputs_on(const std::vector<Device>& devices, DType dtype,
                                     const std::vector<std::int64_t>& sizes = {3, 2, 4, 2}) {
  manual_seed(3);
  std::vector<Tensor> inputs;
  for (std::size_t d = 0; d < devices.size(); ++d)
    inputs.push_back(randn({sizes[d], 4}).to(dtype).to(devices[d]));
  return inputs;
}

inline void wait_for(const std::vector<Device>& devices) {
  for (const Device& device : devices) synchronize(device);
}

/// The replicas' results for their inputs (except undefined ones), summed on the first device.
inline Tensor loss_of(const parallel::Replicas& replicas, const std::vector<Tensor>& inputs) {
  Tensor loss;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (!inputs[r].defined()) continue;
    const Tensor y = replicas[r](inputs[r]);
    const Tensor part =
        sum(y * y * static_cast<double>(r + 1)).to(replicas[0].parameters()[0].device());
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

/// The gradients of a single module, in float64 on the host, for the same inputs.
inline std::vector<Tensor> expected_gradients(const nn::Module& module,
                                              const std::vector<Tensor>& inputs) {
  const std::unique_ptr<nn::Module> alone = module.clone();
  alone->to(Device(), kFloat64);
  Tensor loss;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (!inputs[r].defined()) continue;
    const Tensor y = (*alone)(inputs[r].to(Device(), kFloat64));
    const Tensor part = sum(y * y * static_cast<double>(r + 1));
    loss = loss.defined() ? loss + part : part;
  }
  loss.backward();
  std::vector<Tensor> gradients;
  for (const Tensor& p : alone->parameters()) gradients.push_back(p.grad());
  return gradients;
}

inline void check_gradients(const nn::Module& module, const std::vector<Tensor>& expected,
                            double rtol, double atol) {
  const auto parameters = module.named_parameters();
  REQUIRE(parameters.size() == expected.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, p] = parameters[i];
    CAPTURE(name);
    REQUIRE(p.grad().defined() == expected[i].defined());
    if (!expected[i].defined()) continue;
    CHECK(p.grad().device() == p.device());
    check_close(p.grad(), expected[i], rtol, atol);
  }
}

/// For two passes, the second of which accumulates; some of the replicas may have no input.
inline void check_replica_gradients(const std::vector<Device>& devices, const nn::Module& model,
                                    const std::vector<Tensor>& inputs, double bucket_cap_mb,
                                    double rtol, double atol, std::string_view backend = {}) {
  const std::unique_ptr<nn::Module> module = model.clone();
  module->to(devices[0]);
  std::vector<Tensor> expected = expected_gradients(*module, inputs);
  const auto comm = parallel::dp::make_device_comm(devices, backend);
  for (int pass = 1; pass <= 2; ++pass) {
    const auto state = module->state_dict();
    const auto replicas = parallel::replicate(*module, *comm, {.bucket_cap_mb = bucket_cap_mb});
    loss_of(replicas, inputs).backward();
    wait_for(devices);
    check_gradients(*module, expected, rtol, atol);
    NoGradGuard no_grad;
    for (Tensor& t : expected)
      if (t.defined()) t = t * 2.0;
  }
}

}  // namespace ferrite::test
