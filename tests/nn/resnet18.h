// The network, images and labels of tests/golden/record_resnet18.py, and its training step.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"

namespace ferrite::test {

inline constexpr std::int64_t kBatch = 8, kClasses = 7;

inline nn::ResNet narrow_resnet18() {
  return {nn::ResNetBlock::basic, {2, 2, 2, 2}, {.classes = kClasses, .width = 5}};
}

/// The network with weights that PyTorch trained for three steps.
inline nn::ResNet resnet18_of_pytorch() {
  nn::ResNet net = narrow_resnet18();
  const auto path =
      std::filesystem::path(source_dir()) / "tests" / "golden" / "resnet18_weights.safetensors";
  const nn::LoadReport report = net.load_state_dict(load(path));
  CHECK_MESSAGE(report.complete(), report.str());
  return net;
}

inline Tensor resnet18_images(std::uint32_t step) {
  return hash_uniform({kBatch, 3, 48, 48}, 1000 + step % 2, 1);
}

inline Tensor resnet18_labels(std::uint32_t step) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < kBatch; ++i) values.push_back(hash32(2000 + step % 2, i) % kClasses);
  return from_vector(values, {kBatch});
}

/// The norm of the difference, relative to the norm of `expected`.
inline double relative_difference(const Tensor& got, const Tensor& expected) {
  NoGradGuard guard;
  const Tensor e = expected.to(kFloat64);
  return norm(got.cpu().to(kFloat64) - e).item<double>() / norm(e).item<double>();
}

/// Checks forward and backward in float32 against PyTorch: logits to 1e-4, gradients to 1e-3.
inline void check_resnet18_step(const Device& device, MemoryFormat format) {
  CAPTURE(device.str());
  CAPTURE(static_cast<int>(format));
  const Golden golden("resnet18");
  nn::ResNet net = resnet18_of_pytorch();
  net.to(device).to(format);
  const Tensor x = resnet18_images(0).to(device).contiguous(format);
  net.eval();
  no_grad([&] { check_close(net(x), golden.get("step", "eval"), 1e-4, 1e-4); });
  net.train();
  const Tensor logits = net(x);
  check_close(logits, golden.get("step", "logits"), 1e-4, 1e-4);
  const Tensor loss = cross_entropy(logits, resnet18_labels(0).to(device));
  check_close(loss, golden.get("step", "loss"), 1e-4);
  loss.backward();
  for (const auto& [name, p] : net.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad().defined());
    CHECK(relative_difference(p.grad(), golden.get("step", "grad." + name)) < 1e-3);
  }
}

}  // namespace ferrite::test
