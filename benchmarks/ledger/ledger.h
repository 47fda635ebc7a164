// The launches of a training step, and what a GPU's figures say of them.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/benchmarks/ledger/step.h"

namespace bench {

/// What bounds a kernel, from the maker's data sheets: dense products of 16-bit types on tensor
/// cores, products of float32 outside of them, and memory.
struct Gpu {
  const char* name;
  double half_flops, float_flops, bytes_per_second;
  const char* source;
};
inline constexpr std::array<Gpu, 2> kGpus = {{
    {"H100-SXM", 989.4e12, 66.9e12, 3.35e12,
     "NVIDIA H100 Tensor Core GPU Architecture (white paper, table 2) and data sheet: 989.4 and "
     "66.9 TFLOP/s, 3.35 TB/s"},
    {"H200-SXM", 989.4e12, 66.9e12, 4.8e12,
     "NVIDIA H200 Tensor Core GPU data sheet: the compute of the H100 SXM, 4.8 TB/s"},
}};

struct Launch {
  std::string name;
  std::array<unsigned, 3> grid{}, block{};  ///< zeros for what a library launches, and copies
  std::uint64_t read = 0, written = 0;      ///< bytes
  std::uint64_t flops = 0;                  ///< of products
  double measured_us = 0;                   ///< 0: not measured

  std::uint64_t bytes() const { return read + written; }
  double roofline_us(const Gpu& gpu, bool half) const;
};

/// The launches of a step in their order: counted, on the emulator, or measured, on a GPU. Error
/// where the emulator cannot count.
std::vector<Launch> launches_of(const StepOptions& options);

/// The launches of a larger batch, from those of two smaller ones: what they read, write and
/// compute is a constant and a part for each image. Error where the launches differ.
std::vector<Launch> extend(const std::vector<Launch>& at_first, std::int64_t first,
                           const std::vector<Launch>& at_second, std::int64_t second,
                           std::int64_t batch);

}  // namespace bench
