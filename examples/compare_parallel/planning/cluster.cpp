#include "ferrite/examples/compare_parallel/planning/cluster.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

namespace {

constexpr double kGB = 1e9, kMicro = 1e-6;

// What NCCL reckons with when it chooses an algorithm: src/graph/topo.h (GB/s of one NVLink, of
// PCIe 3 x16 and of a 100 Gbit/s adapter), src/graph/tuning.cc (microseconds a step of a ring with
// the protocol "Simple": 3.4 over NVLink, 5.7 over PCIe, 14 over the network).
constexpr std::string_view kNvlink =
    "NCCL src/graph/topo.h SM60/70/80/90_NVLINK_BW times the links of a GPU (4, 6, 12, 18); "
    "latency: "
    "tuning.cc, ring, Simple, NVLINK";
constexpr std::string_view kPcie =
    "NCCL src/graph/topo.h PCI_BW (12 GB/s of PCIe 3 x16, doubled for each generation); latency: "
    "tuning.cc, ring, Simple, PCI";
constexpr std::string_view kInfiniband =
    "NCCL src/graph/topo.h NET_BW (12 of 12.5 GB/s), that share of the nominal data rate; latency: "
    "tuning.cc, ring, Simple, NET";
constexpr std::string_view kRoce =
    "RDMA: 94 % of the nominal rate (1500 bytes of 1538 on the wire, less headers of IP and "
    "transport); latency: NCCL tuning.cc, ring, Simple, NET";
constexpr std::string_view kTcp =
    "94 % of the nominal rate (1460 bytes of 1538 on the wire); latency: two kernels' TCP stacks, "
    "a ping-pong of some 50 us there and back";
constexpr std::string_view kLoopback =
    "benchmarks/results/2026-11-22-distributed-cpu.md: bench_collectives, two ranks, 16 MB and 1 "
    "KB";

constexpr LinkPreset kPresets[] = {
    {"nvlink1", 80 * kGB, 72 * kGB, 3.4 * kMicro, true, kNvlink},    // P100: 4 links of 20
    {"nvlink2", 150 * kGB, 120 * kGB, 3.4 * kMicro, true, kNvlink},  // V100: 6 of 25
    {"nvlink3", 300 * kGB, 240 * kGB, 3.4 * kMicro, true, kNvlink},  // A100: 12 of 25
    {"nvlink4", 450 * kGB, 370 * kGB, 3.4 * kMicro, true, kNvlink},  // H100: 18 of 25
    {"pcie3", 15.75 * kGB, 12 * kGB, 5.7 * kMicro, true, kPcie},
    {"pcie4", 31.5 * kGB, 24 * kGB, 5.7 * kMicro, true, kPcie},
    {"pcie5", 63 * kGB, 48 * kGB, 5.7 * kMicro, true, kPcie},
    {"ethernet-10g", 1.25 * kGB, 1.175 * kGB, 25 * kMicro, false, kTcp},
    {"ethernet-25g", 3.125 * kGB, 2.94 * kGB, 25 * kMicro, false, kTcp},
    {"ethernet-50g", 6.25 * kGB, 5.87 * kGB, 25 * kMicro, false, kTcp},
    {"ethernet-100g", 12.5 * kGB, 11.7 * kGB, 25 * kMicro, false, kTcp},
    {"roce-25g", 3.125 * kGB, 2.94 * kGB, 14 * kMicro, false, kRoce},
    {"roce-50g", 6.25 * kGB, 5.87 * kGB, 14 * kMicro, false, kRoce},
    {"roce-100g", 12.5 * kGB, 11.7 * kGB, 14 * kMicro, false, kRoce},
    {"infiniband-fdr", 6.8 * kGB, 6.5 * kGB, 14 * kMicro, false,
     kInfiniband},  // 4 x 13.64 Gbit/s of data
    {"infiniband-edr", 12.5 * kGB, 12 * kGB, 14 * kMicro, false, kInfiniband},
    {"infiniband-hdr", 25 * kGB, 24 * kGB, 14 * kMicro, false, kInfiniband},
    {"infiniband-ndr", 50 * kGB, 48 * kGB, 14 * kMicro, false, kInfiniband},
    {"loopback-tcp", 2.2 * kGB, 2.2 * kGB, 59 * kMicro, false, kLoopback},
    {"loopback-shm", 7.8 * kGB, 7.8 * kGB, 35 * kMicro, true, kLoopback},
};

double number(std::string_view text) {
  double value = std::numeric_limits<double>::quiet_NaN();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size()
             ? value
             : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void LinkSpeed::check() const {
  FERRITE_CHECK(bandwidth > 0, ValueError, kOp,
                "expected a bandwidth above 0 bytes/s for link {}, got {}", name, bandwidth);
  FERRITE_CHECK(std::isfinite(latency_s) && latency_s >= 0, ValueError, kOp,
                "expected a latency of 0 s or more for link {}, got {}", name, latency_s);
  FERRITE_CHECK(compute_share >= 0 && compute_share <= 1, ValueError, kOp,
                "expected a compute share from 0 to 1 for link {}, got {}", name, compute_share);
}

std::span<const LinkPreset> link_presets() { return kPresets; }

LinkSpeed link_speed(std::string_view text) {
  for (const auto& preset : kPresets)
    if (preset.name == text) return {std::string(text), preset.bandwidth, preset.latency_s};
  if (const auto comma = text.find(','); comma != std::string_view::npos) {
    const double bandwidth = number(text.substr(0, comma)),
                 latency = number(text.substr(comma + 1));
    if (bandwidth > 0 && latency >= 0 && std::isfinite(latency))
      return {fmt::format("{} GB/s, {} us", bandwidth, latency), bandwidth * kGB, latency * kMicro};
  }
  std::string names;
  for (const auto& preset : kPresets)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
  fail<ValueError>(kOp,
                   "expected a link (one of {}) or its GB/s and microseconds (11.5,14), got '{}'",
                   names, text);
}

LinkSpeed Cluster::node_link() const {
  LinkSpeed link = between;
  link.bandwidth *= adapters;
  return link;
}

void Cluster::check() const {
  inside.check();
  between.check();
  FERRITE_CHECK(devices_per_node > 0, ValueError, kOp,
                "expected 1 device or more in a node, got {}", devices_per_node);
  FERRITE_CHECK(adapters > 0, ValueError, kOp, "expected 1 adapter or more in a node, got {}",
                adapters);
  FERRITE_CHECK(std::isfinite(launch_s) && launch_s >= 0, ValueError, kOp,
                "expected a launch of 0 s or more, got {}", launch_s);
  FERRITE_CHECK(std::isfinite(host_s) && host_s >= 0, ValueError, kOp,
                "expected host time of 0 s or more, got {}", host_s);
  FERRITE_CHECK(add_bandwidth > 0, ValueError, kOp, "expected sums at more than 0 bytes/s, got {}",
                add_bandwidth);
}

Cluster cluster(std::string_view inside, std::string_view between, int devices_per_node,
                int adapters) {
  Cluster cluster{.name = fmt::format("{} x {}, {} x {} between nodes", devices_per_node, inside,
                                      adapters, between),
                  .devices_per_node = devices_per_node,
                  .inside = link_speed(inside),
                  .between = link_speed(between),
                  .adapters = adapters};
  cluster.check();
  return cluster;
}

Cluster perfect_cluster(int devices_per_node) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return {.name = "perfect",
          .devices_per_node = devices_per_node,
          .inside = {"perfect", kInfinite, 0},
          .between = {"perfect", kInfinite, 0},
          .launch_s = 0,
          .add_bandwidth = kInfinite};
}

}  // namespace ferrite::planning
