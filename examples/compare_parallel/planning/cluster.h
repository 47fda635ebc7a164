// Machines as the planner sees them: devices in nodes, and the links between them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::planning {

/// One direction of a link, as software uses it.
struct LinkSpeed {
  std::string name;
  double bandwidth = 0;  ///< bytes a second that are reached, not those on the label
  double latency_s = 0;  ///< from one program to the other
  /// Where communication is work of the cores that compute (devices that are a host's cores): the
  /// share of its time that it takes from them. 0 where engines of its own move the data.
  double compute_share = 0;

  /// ValueError, naming the link, unless the bandwidth is above 0 (infinity is allowed), the
  /// latency 0 or more, and the share from 0 to 1.
  void check() const;
};

/// A link that many have. Bandwidths are in bytes a second and one direction, of one device for
/// links inside nodes, of one adapter for those between them.
struct LinkPreset {
  std::string_view name;     ///< as link_speed() takes it
  double nominal_bandwidth;  ///< on the label
  double bandwidth;          ///< reached
  double latency_s;
  bool inside_nodes;
  std::string_view source;  ///< of what is reached, and of the latency
};

/// All presets: nvlink1..4, pcie3..5, ethernet-10g..100g, roce-25g..100g,
/// infiniband-fdr..ndr, loopback-tcp, loopback-shm.
std::span<const LinkPreset> link_presets();
/// A preset by its name, or "bandwidth,latency" in GB/s and microseconds ("11.5,14"). ValueError,
/// listing the presets, for anything else.
LinkSpeed link_speed(std::string_view text);

/// Devices in nodes that are all alike, numbered node by node.
struct Cluster {
  std::string name;
  int devices_per_node = 8;
  LinkSpeed inside;   ///< of each device, to the others of its node
  LinkSpeed between;  ///< of each adapter, to other nodes
  int adapters = 1;   ///< of a node; what leaves it is spread over them
  /// The time before the first byte of every collective: launching it, agreeing to run it.
  double launch_s = 8.4e-6;
  /// Bytes a second at which a device adds what it received to what it has, and another such stream
  /// is read and one written: for sums at a parameter server. NCCL's rings add as they receive.
  double add_bandwidth = 200e9;
  /// The host's time for starting each device that a process drives (DataParallel's threads).
  double host_s = 0;

  /// Between nodes, over all adapters.
  LinkSpeed node_link() const;
  /// How many nodes `devices` take.
  int nodes(int devices) const { return (devices + devices_per_node - 1) / devices_per_node; }
  /// ValueError, naming the field.
  void check() const;
};

/// ValueError for presets that are not known.
Cluster cluster(std::string_view inside, std::string_view between, int devices_per_node,
                int adapters = 1);
/// Without latencies, infinitely fast.
Cluster perfect_cluster(int devices_per_node = 8);

}  // namespace ferrite::planning
