// The requirements on scatter and gather between any devices.
#pragma once

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/parallel/data_parallel/gather.h"
#include "ferrite/parallel/data_parallel/scatter.h"

namespace ferrite::test {

inline std::vector<Device> cpu_devices(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceType::cpu, i);
  return devices;
}

inline Tensor counting(const Shape& shape, const Device& device, DType dtype = kFloat32) {
  return arange(Scalar(shape.numel())).reshape(shape).to(dtype).to(device);
}

inline std::vector<std::int64_t> sizes_of(const std::vector<Tensor>& chunks, int dim = 0) {
  std::vector<std::int64_t> sizes;
  for (const Tensor& chunk : chunks) sizes.push_back(chunk.size(dim));
  return sizes;
}

/// `t` scattered along `dim` and gathered again is unchanged; the chunks are torch.chunk's.
inline void check_round_trip(const Tensor& t, const std::vector<Device>& devices, int dim) {
  CAPTURE(t.describe());
  CAPTURE(dim);
  CAPTURE(fmt::format("{}", t.strides()));
  const std::vector<Tensor> chunks = parallel::scatter(t, devices, dim);
  const std::vector<Tensor> expected =
      t.size(dim) == 0 ? std::vector{t} : chunk(t, static_cast<std::int64_t>(devices.size()), dim);
  REQUIRE(chunks.size() == expected.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    CHECK(chunks[i].device() == devices[i]);
    CHECK(chunks[i].dtype() == t.dtype());
    CHECK(chunks[i].shape() == expected[i].shape());
    CHECK(chunks[i].to_vector<double>() == expected[i].to_vector<double>());
    CHECK(chunks[i].shares_storage(t) == (devices[i] == t.device()));
    if (chunks[i].dim() == 4 && chunks[i].size(1) > 1 && devices[i] != t.device())
      CHECK(chunks[i].suggest_memory_format() == t.suggest_memory_format());
  }
  for (const Device& target : {t.device(), devices.back()}) {
    const Tensor back = parallel::gather(chunks, target, dim);
    CHECK(back.device() == target);
    CHECK(back.dtype() == t.dtype());
    CHECK(back.shape() == t.shape());
    CHECK(back.to_vector<double>() == t.to_vector<double>());
    if (t.dim() == 4 && dim == 0) CHECK(back.suggest_memory_format() == t.suggest_memory_format());
  }
}

/// Shapes, strides and dtypes, from `source` to the devices and back.
inline void check_round_trips(const Device& source, const std::vector<Device>& devices) {
  CAPTURE(source.str());
  for (const std::int64_t n : {30, 10, 5, 3, 1, 0})
    check_round_trip(counting({n, 3}, source), devices, 0);
  for (const DType dtype :
       {kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
    check_round_trip(counting({9, 2}, source, dtype), devices, 0);
  const Tensor x = counting({6, 5, 4, 2}, source);
  for (const int dim : {0, 1, 2, 3, -1}) {
    check_round_trip(x, devices, dim);
    check_round_trip(x.to(kChannelsLast), devices, dim);
  }
  check_round_trip(x.transpose(0, 2), devices, 0);
  check_round_trip(x.slice(0, 1, 6, 2), devices, 0);
  check_round_trip(x.slice(3, 1), devices, 1);
  check_round_trip(counting({1, 3}, source).expand({7, 3}), devices, 0);
}

/// Gradients against finite differences, to second order, with some unused chunks.
inline void check_gradients(const Device& source, const std::vector<Device>& devices) {
  CAPTURE(source.str());
  const Tensor x = counting({5, 2, 3}, source, kFloat64) * 0.25 + 0.5;
  x.set_requires_grad();
  for (const int dim : {0, 2}) {
    const auto squares = [&](const std::vector<Tensor>& in) {
      std::vector<Tensor> chunks = parallel::scatter(in[0], devices, dim);
      for (std::size_t i = 0; i < chunks.size(); ++i)
        chunks[i] = chunks[i] * chunks[i] * static_cast<double>(i + 1);
      return parallel::gather(chunks, devices[0], dim);
    };
    CHECK(autograd::gradcheck(squares, {x}, {.second_order = true}));
    const auto second_only = [&](const std::vector<Tensor>& in) {
      const Tensor chunk = parallel::scatter(in[0], devices, dim)[1];
      return chunk * chunk;
    };
    CHECK(autograd::gradcheck(second_only, {x}, {.second_order = true}));
  }
  // 0-dimensional: copied to every device, and gathered as vectors.
  const Tensor s = full({}, 3.0, {.dtype = kFloat64, .device = source}).set_requires_grad();
  const auto replicated = [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> copies = parallel::scatter(in[0], devices);
    for (std::size_t i = 0; i < copies.size(); ++i)
      copies[i] = copies[i] * copies[i] * static_cast<double>(i + 2);
    return parallel::gather(copies, source);
  };
  CHECK(replicated({s}).shape() == Shape{static_cast<std::int64_t>(devices.size())});
  CHECK(autograd::gradcheck(replicated, {s}, {.second_order = true}));
}

}  // namespace ferrite::test
