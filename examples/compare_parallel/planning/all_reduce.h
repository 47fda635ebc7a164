// How long all-reduces take.
//
//   ring          Patarasuk and Yuan 2009: one ring over all devices, node by node
//   tree          Sanders, Speck, Traeff 2009 ("Two-tree algorithms for full bandwidth broadcast,
//                 reduction and scan"), as NCCL has it since 2.4: each half of the data goes up and
//                 down one of two binary trees of nodes, in which every node is a leaf once; inside
//                 a node it goes along a chain
//   hierarchical  reduce-scatter in every node; each device all-reduces its part with those of its
//                 place in the other nodes, all at once over the node's adapters, by a ring or by
//                 trees, whichever is faster; all-gather in every node (Mikami et al. 2018,
//                 "Massively distributed SGD", as a 2D torus; Cho et al. 2019, "BlueConnect")
//   fastest       of the three, as NCCL's tuner chooses by such a model
#pragma once

#include <cstdint>
#include <string_view>

#include "ferrite/examples/compare_parallel/planning/cluster.h"

namespace ferrite::planning {

enum class AllReduceAlgorithm : std::uint8_t { ring, tree, hierarchical, fastest };

std::string_view to_string(AllReduceAlgorithm algorithm);
/// ValueError for an unknown name.
AllReduceAlgorithm all_reduce_algorithm(std::string_view name);

struct AllReduceOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::fastest;
  /// What trees send at once, at most; NCCL's 256 kB.
  double tree_chunk_bytes = 256 * 1024;
};

struct AllReduceCost {
  double seconds = 0;
  double bytes_sent = 0;  ///< of the device that sends most
  /// The part of `seconds` in which a device's cores work on it (LinkSpeed::compute_share).
  double compute_s = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
};

/// Closed forms, for `devices` that all begin at the same time; O(1). What is assumed:
/// - links are full duplex, switches never block, nodes are full (the last may not be: it counts
///   as a full one);
/// - a ring is a max-plus system: a step of it takes what its slowest link takes for a part of
///   1/n, or the mean of all links' latency and transfer where that is more (a part must go all
///   round). On equal links this is 2(n-1) (latency + bytes / (n bandwidth)), exactly;
/// - trees are pipelined: 2 bytes / bandwidth, and 2 depth (latency + chunk / bandwidth) to fill
///   and to empty them;
/// - 1 device takes no time.
/// ValueError for less than 1 device, negative bytes, and a cluster that is wrong.
AllReduceCost all_reduce_cost(double bytes, int devices, const Cluster& cluster,
                              const AllReduceOptions& options = {});

}  // namespace ferrite::planning
