// The requirements on every transport between the devices of a process.
#pragma once

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "ferrite/core/allocator.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace ferrite::test {

using Lists = std::vector<std::vector<Tensor>>;

/// Values that every dtype can represent, different for every `seed`.
inline Tensor values_for(const Shape& shape, DType dtype, int seed, const Device& device) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 37 + static_cast<std::size_t>(seed) * 11) % 61);
  if (is_floating(dtype))
    for (double& v : values) v = (v - 30) / 4;
  return from_vector(values, shape).to(dtype).to(device);
}

/// Tensors of `dtype` that are small, empty, strided, transposed, expanded, channels-last; for
/// float32 also one too large to be packed.
inline std::vector<Tensor> assorted(DType dtype, int seed, const Device& device) {
  const auto make = [&](const Shape& shape) { return values_for(shape, dtype, seed, device); };
  const std::int64_t large = dtype == kFloat32 ? 300 : 3;
  return {make({0}),
          make({}),
          make({1}),
          make({3, 5}),
          make({7, 4}).t(),
          make({9, 6}).slice(1, 1, 6, 2),
          make({33}).slice(0, 1),
          make({5, 1}).expand({5, 3}),
          make({2, 3, 5, 4}).contiguous(kChannelsLast),
          make({large, 219}),
          make({2, 3, 0}),
          make({large, 221}).t(),
          make({large, 2, 223}).slice(1, 1)};
}

inline bool has_gaps(const Tensor& t) {
  return t.numel() > 0 && !t.is_contiguous() && !t.is_contiguous(kChannelsLast) &&
         !(t.dim() == 2 && t.t().is_contiguous());
}

inline void check_same(const Tensor& actual, const Tensor& expected, const Device& device) {
  CAPTURE(expected.describe());
  REQUIRE(actual.defined());
  CHECK(actual.device() == device);
  CHECK(actual.dtype() == expected.dtype());
  REQUIRE(actual.shape() == expected.shape());
  CHECK(actual.suggest_memory_format() == expected.suggest_memory_format());
  CHECK(actual.to_vector<double>() == expected.to_vector<double>());
}

/// The expected sum of parts[d][i], for at least one list.
inline Tensor expected_sum(const Lists& parts, std::size_t i) {
  std::vector<double> sum;
  Tensor first;
  for (const std::vector<Tensor>& list : parts) {
    if (!list[i].defined()) continue;
    if (!first.defined()) first = list[i];
    const std::vector<double> values = list[i].to_vector<double>();
    sum.resize(values.size());
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
  }
  if (!first.defined()) return first;
  return from_vector(sum, first.shape()).to(first.dtype());
}

inline void check_sums(parallel::dp::DeviceComm& comm, const Lists& parts, int first) {
  const std::vector<Tensor> sums = comm.reduce_add(parts, first);
  REQUIRE(sums.size() == parts[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i);
    const Tensor expected = expected_sum(parts, i);
    REQUIRE(sums[i].defined() == expected.defined());
    if (!expected.defined()) continue;
    CHECK(sums[i].device() == comm.devices()[0]);
    CHECK(sums[i].dtype() == expected.dtype());
    REQUIRE(sums[i].shape() == expected.shape());
    CHECK(sums[i].to_vector<double>() == expected.to_vector<double>());
    CHECK_FALSE(has_gaps(sums[i]));
  }
}

inline Lists parts_of(const std::vector<Device>& devices, int first, DType dtype) {
  Lists parts;
  for (std::size_t d = static_cast<std::size_t>(first); d < devices.size(); ++d)
    parts.push_back(assorted(dtype, static_cast<int>(d), devices[d]));
  return parts;
}

inline void check_broadcast(parallel::dp::DeviceComm& comm) {
  const std::vector<Device>& devices = comm.devices();
  std::vector<Tensor> tensors;
  for (const DType dtype :
       {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
    for (const Tensor& t : assorted(dtype, 1, devices[0])) tensors.push_back(t);
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<std::int64_t>(t.nbytes());
  const std::int64_t before = comm.bytes_broadcast();
  const Lists copies = comm.broadcast(tensors);
  const auto peers = static_cast<std::int64_t>(devices.size()) - 1;
  CHECK(comm.bytes_broadcast() - before == bytes * peers);
  REQUIRE(copies.size() == devices.size() - 1);
  for (std::size_t p = 0; p < copies.size(); ++p) {
    REQUIRE(copies[p].size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      check_same(copies[p][i], tensors[i], devices[p + 1]);
      CHECK_FALSE(has_gaps(copies[p][i]));
      if (!has_gaps(tensors[i]) && tensors[i].numel() > 0)
        CHECK(copies[p][i].strides() == tensors[i].strides());
    }
  }
  for (const std::vector<Tensor>& list : comm.broadcast({})) CHECK(list.empty());
  for (const std::vector<Tensor>& list : comm.broadcast(std::vector{tensors[0]}))
    check_same(list[0], tensors[0], list[0].device());
}

inline void check_reduce_add(parallel::dp::DeviceComm& comm) {
  const std::vector<Device>& devices = comm.devices();
  const int lists = static_cast<int>(devices.size());
  for (const DType dtype :
       {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8})
    for (const int first : {0, 1}) {
      if (first == lists) continue;
      CAPTURE(name(dtype));
      CAPTURE(first);
      Lists parts = parts_of(devices, first, dtype);
      std::int64_t bytes = 0;
      for (const auto& list : parts)
        for (const Tensor& t : list)
          if (t.device() != devices[0]) bytes += static_cast<std::int64_t>(t.nbytes());
      const std::int64_t before = comm.bytes_reduced();
      check_sums(comm, parts, first);
      CHECK(comm.bytes_reduced() - before == bytes);
      // Some parts are undefined, some have another layout, and the last list is missing.
      parts[0][3] = parts.back()[9] = parts[parts.size() / 2][1] = Tensor();
      for (auto& list : parts) list[4] = Tensor();
      parts.back()[8] = values_for({2, 3, 5, 4}, dtype, 5, parts.back()[8].device());
      parts.back()[11] = values_for(parts.back()[11].shape(), dtype, 6, parts.back()[8].device());
      check_sums(comm, parts, first);
      if (parts.size() > 1) parts.pop_back();
      check_sums(comm, parts, first);
    }
  CHECK(comm.reduce_add({}, 1).empty());
}

/// Many calls need no more memory than two, and the results are independent tensors.
inline void check_memory(parallel::dp::DeviceComm& comm) {
  const std::vector<Device>& devices = comm.devices();
  const std::vector<Tensor> tensors = assorted(kFloat32, 3, devices[0]);
  const Lists parts = parts_of(devices, 1, kFloat32);
  const auto reserved = [&] {
    std::vector<std::size_t> bytes;
    for (const Device& device : devices) bytes.push_back(memory_reserved(device));
    return bytes;
  };
  std::vector<std::size_t> before;
  for (int call = 0; call < 12; ++call) {
    const Lists copies = comm.broadcast(tensors);
    const std::vector<Tensor> sums = comm.reduce_add(parts, 1);
    if (call == 1) before = reserved();
  }
  CHECK(reserved() == before);
  Tensor kept, other;
  {
    const Lists copies = comm.broadcast(tensors);
    kept = copies[0][3];
    other = copies[0][5];
  }
  const std::uint32_t version = other.version();
  kept.fill_(5);
  CHECK(other.version() == version);
  CHECK(other.to_vector<double>() == tensors[5].to_vector<double>());
  CHECK(kept.to_vector<double>() == std::vector<double>(15, 5));
}

/// Floats are added from the first device to the last, 16-bit ones rounded once.
inline void check_order(parallel::dp::DeviceComm& comm) {
  const std::vector<Device>& devices = comm.devices();
  const std::vector<float> values = {1e8F, 3, -1e8F, 7};
  Lists parts;
  float sum = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    parts.push_back({full({1000}, values[d % 4], {.device = devices[d]}),
                     full({40}, d == 0 ? 256 : 1, {.dtype = kBFloat16, .device = devices[d]})});
    sum = d == 0 ? values[0] : sum + values[d % 4];
  }
  const std::vector<Tensor> sums = comm.reduce_add(parts, 0);
  CHECK(sums[0].to_vector<float>() == std::vector<float>(1000, sum));
  const double ones = static_cast<double>(devices.size()) - 1;
  const Tensor rounded = full({40}, 256 + ones).to(kBFloat16);
  CHECK(sums[1].to_vector<double>() == rounded.to_vector<double>());
}

}  // namespace ferrite::test
