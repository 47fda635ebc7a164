#include "ferrite/examples/compare_parallel/planning/all_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

namespace {

constexpr std::array<std::string_view, 4> kNames{"ring", "tree", "hierarchical", "fastest"};

double transfer_s(double bytes, const LinkSpeed& link) { return bytes / link.bandwidth; }

/// `steps` of a ring of n members, each of which sends parts of `part` bytes; `crossings` of the n
/// links are `slow`.
double ring_s(double steps, double part, double n, double crossings, const LinkSpeed& fast,
              const LinkSpeed& slow) {
  if (n <= 1) return 0;
  const double fast_part = transfer_s(part, fast), slow_part = transfer_s(part, slow);
  const double around =
      ((n - crossings) * (fast.latency_s + fast_part) + crossings * (slow.latency_s + slow_part)) /
      n;
  const double bottleneck = std::max(n > crossings ? fast_part : 0, crossings > 0 ? slow_part : 0);
  return steps * std::max(around, bottleneck);
}

double tree_depth(double members) { return std::ceil(std::log2(std::max(1.0, members))); }

/// The two trees over `members` that are linked alike.
double trees_s(double bytes, double members, const LinkSpeed& link, double chunk_bytes) {
  if (members <= 1) return 0;
  const double chunk = std::min(chunk_bytes, bytes / 2);
  return 2 * transfer_s(bytes, link) +
         2 * tree_depth(members) * (link.latency_s + transfer_s(chunk, link));
}

struct Shape {
  double devices, per_node, nodes;  // per_node: of a full node, or all where there is one node

  Shape(int n, const Cluster& cluster)
      : devices(n), per_node(std::min(n, cluster.devices_per_node)), nodes(cluster.nodes(n)) {}
};

AllReduceCost ring_cost(double bytes, const Shape& shape, const Cluster& cluster) {
  const double n = shape.devices;
  const double crossings = shape.nodes > 1 ? shape.nodes : 0;
  return {
      .seconds = ring_s(2 * (n - 1), bytes / n, n, crossings, cluster.inside, cluster.node_link()),
      .bytes_sent = 2 * (n - 1) / n * bytes,
      .algorithm = AllReduceAlgorithm::ring};
}

AllReduceCost tree_cost(double bytes, const Shape& shape, const Cluster& cluster,
                        double chunk_bytes) {
  AllReduceCost cost{.algorithm = AllReduceAlgorithm::tree};
  if (shape.nodes <= 1) {
    cost.seconds = trees_s(bytes, shape.devices, cluster.inside, chunk_bytes);
  } else {
    // The chain in a node and the trees between nodes are one pipeline: its slowest part sets the
    // pace, all of it has to be filled and emptied.
    const LinkSpeed out = cluster.node_link();
    const double chunk = std::min(chunk_bytes, bytes / 2);
    const double pace = std::max(2 * transfer_s(bytes, out),
                                 shape.per_node > 1 ? 2 * transfer_s(bytes, cluster.inside) : 0);
    cost.seconds =
        pace + 2 * tree_depth(shape.nodes) * (out.latency_s + transfer_s(chunk, out)) +
        2 * (shape.per_node - 1) * (cluster.inside.latency_s + transfer_s(chunk, cluster.inside));
  }
  cost.bytes_sent = shape.devices > 1 ? 2 * bytes : 0;
  return cost;
}

AllReduceCost hierarchical_cost(double bytes, const Shape& shape, const Cluster& cluster,
                                double chunk_bytes) {
  const double g = shape.per_node, m = shape.nodes;
  // g rings at once share the node's adapters.
  LinkSpeed out = cluster.node_link();
  out.bandwidth /= g;
  const double inside = ring_s(g - 1, bytes / g, g, 0, cluster.inside, cluster.inside);
  const double between = std::min(ring_s(2 * (m - 1), bytes / g / m, m, m, out, out),
                                  trees_s(bytes / g, m, out, chunk_bytes));
  return {.seconds = 2 * inside + (m > 1 ? between : 0),
          .bytes_sent = 2 * (g - 1) / g * bytes + 2 * (m - 1) / m * bytes / g,
          .algorithm = AllReduceAlgorithm::hierarchical};
}

}  // namespace

std::string_view to_string(AllReduceAlgorithm algorithm) {
  return kNames[static_cast<std::size_t>(algorithm)];
}

AllReduceAlgorithm all_reduce_algorithm(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  FERRITE_CHECK(found != kNames.end(), ValueError, kOp,
                "expected ring, tree, hierarchical or fastest, got '{}'", name);
  return static_cast<AllReduceAlgorithm>(found - kNames.begin());
}

AllReduceCost all_reduce_cost(double bytes, int devices, const Cluster& cluster,
                              const AllReduceOptions& options) {
  cluster.check();
  FERRITE_CHECK(devices > 0, ValueError, kOp, "expected 1 device or more, got {}", devices);
  FERRITE_CHECK(std::isfinite(bytes) && bytes >= 0, ValueError, kOp,
                "expected 0 bytes or more to all-reduce, got {}", bytes);
  FERRITE_CHECK(options.tree_chunk_bytes > 0, ValueError, kOp,
                "expected chunks of more than 0 bytes, got {}", options.tree_chunk_bytes);
  if (devices == 1) return {.algorithm = options.algorithm};
  const Shape shape(devices, cluster);
  AllReduceCost cost;
  switch (options.algorithm) {
    case AllReduceAlgorithm::ring:
      cost = ring_cost(bytes, shape, cluster);
      break;
    case AllReduceAlgorithm::tree:
      cost = tree_cost(bytes, shape, cluster, options.tree_chunk_bytes);
      break;
    case AllReduceAlgorithm::hierarchical:
      cost = hierarchical_cost(bytes, shape, cluster, options.tree_chunk_bytes);
      break;
    case AllReduceAlgorithm::fastest:
      cost = std::min({ring_cost(bytes, shape, cluster),
                       tree_cost(bytes, shape, cluster, options.tree_chunk_bytes),
                       hierarchical_cost(bytes, shape, cluster, options.tree_chunk_bytes)},
                      [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
      break;
  }
  cost.compute_s = cost.seconds * (shape.nodes > 1 ? std::max(cluster.inside.compute_share,
                                                              cluster.between.compute_share)
                                                   : cluster.inside.compute_share);
  cost.seconds += cluster.launch_s;
  return cost;
}

}  // namespace ferrite::planning
