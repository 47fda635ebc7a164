// What the tests of cuDNN's plans share: a described device, and problems by their sizes.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"

namespace ferrite::test {

/// A GPU with compute capability 9.0, as cuDNN describes one.
inline constexpr const char* kHopper = R"({
  "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "deviceName": "Hopper",
  "multiProcessorCount": 132, "totalGlobalMem": 150000000000, "l2CacheSize": 62914560,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "pciDeviceId": 0,
  "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "isTccDriver": 0, "supportCoopLaunch": 1})";

/// A convolution's operands: `size` is the height and width of its input.
struct ConvSizes {
  std::string name;
  std::int64_t n, c, size, o, kernel, stride = 1, padding = 0, dilation = 1, groups = 1;
};

inline kernels::ConvProblem problem(const ConvSizes& s, kernels::ConvPass pass, DType dtype,
                                    kernels::ConvLayout layout) {
  const auto dense = [&](std::array<std::int64_t, 4> sizes) {
    kernels::View v;
    v.ndim = 4;
    v.dtype = dtype;
    v.numel = 1;
    const bool last = layout == kernels::ConvLayout::channels_last;
    for (const int d : last ? std::array{1, 3, 2, 0} : std::array{3, 2, 1, 0}) {
      v.sizes[d] = sizes[static_cast<std::size_t>(d)];
      v.strides[d] = v.numel;
      v.numel *= v.sizes[d];
    }
    return v;
  };
  const std::int64_t extent = s.dilation * (s.kernel - 1) + 1;
  const std::int64_t out = (s.size + 2 * s.padding - extent) / s.stride + 1;
  kernels::ConvProblem p = kernels::problem_of(pass, dense({s.n, s.c, s.size, s.size}),
                                               dense({s.o, s.c / s.groups, s.kernel, s.kernel}),
                                               dense({s.n, s.o, out, out}),
                                               {.stride = {s.stride, s.stride},
                                                .padding = {s.padding, s.padding},
                                                .dilation = {s.dilation, s.dilation},
                                                .groups = s.groups});
  p.layout = layout;  // operands with one channel lie in both
  p.workspace_limit = std::int64_t{1} << 30;
  return p;
}

/// Says why not, if not.
inline bool can_ask_cudnn() {
  const auto report = kernels::cuda::vendor::report_plans(
      problem({"", 32, 64, 56, 64, 3, 1, 1}, kernels::ConvPass::forward, kFloat16,
              kernels::ConvLayout::channels_last),
      kHopper);
  if (!report.asked) MESSAGE("skipped: cuDNN cannot be asked: ", report.why_not);
  return report.asked;
}

}  // namespace ferrite::test
