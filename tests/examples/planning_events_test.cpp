// The planner's events, links and all-reduces, against exact results.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/all_reduce.h"
#include "ferrite/examples/compare_parallel/planning/event_queue.h"
#include "ferrite/tests/examples/planning_references.h"

using namespace ferrite;
using namespace ferrite::planning;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Cluster one_node(int devices, double bandwidth, double latency) {
  return {.devices_per_node = devices,
          .inside = {"inside", bandwidth, latency},
          .between = {"between", bandwidth, latency},
          .launch_s = 0};
}

/// Nodes with `per_node` devices each.
Cluster nodes(int per_node, const LinkSpeed& inside, const LinkSpeed& between) {
  return {.devices_per_node = per_node, .inside = inside, .between = between, .launch_s = 0};
}

TEST_CASE("events run in the order of their times, and equal ones in the order of their calls") {
  EventQueue queue;
  std::string order;
  queue.at(2, [&] { order += 'c'; });
  queue.at(1, [&] {
    order += 'a';
    queue.after(1, [&] { order += 'd'; });
    queue.after(0, [&] { order += 'b'; });
  });
  queue.at(3, {});
  queue.run();
  CHECK(order == "abcd");
  CHECK(queue.now() == 3);
  CHECK(queue.processed() == 5);
  CHECK_THROWS_AS(queue.at(2.5, {}), ValueError);
  CHECK_THROWS_AS(queue.after(-1, {}), ValueError);
  CHECK_THROWS_AS(queue.at(kInfinite, {}), ValueError);
  CHECK_THROWS_AS(queue.at(std::nan(""), {}), ValueError);
}

TEST_CASE("a stream runs one job after another, more slowly while its rate is lower") {
  EventQueue queue;
  ComputeStream stream(queue);
  std::vector<double> ended;
  const auto note = [&] { ended.push_back(queue.now()); };
  stream.submit(1, note);
  stream.submit(2, note);
  stream.submit(0, note);
  queue.at(2, [&] { stream.set_rate(0.5); });  // 1 of the second job is left
  queue.at(3, [&] { stream.set_rate(0); });    // 0.5
  queue.at(7, [&] { stream.set_rate(1); });
  queue.at(10, [&] { stream.submit(1, note); });
  queue.run();
  REQUIRE(ended.size() == 4);
  CHECK(ended[0] == doctest::Approx(1));
  CHECK(ended[1] == doctest::Approx(7.5));
  CHECK(ended[2] == doctest::Approx(7.5));
  CHECK(ended[3] == doctest::Approx(11));
  CHECK(stream.busy_s() == doctest::Approx(8.5));
  CHECK_FALSE(stream.busy());
  CHECK_THROWS_AS(stream.submit(-1), ValueError);
  CHECK_THROWS_AS(stream.set_rate(-1), ValueError);
}

TEST_CASE("transfers share a link fairly, or one after another") {
  for (const Sharing sharing : {Sharing::fair, Sharing::in_order}) {
    CAPTURE(static_cast<int>(sharing));
    EventQueue queue;
    Link link(queue, 100, 0.25, sharing);
    std::vector<double> arrived(3);
    link.transfer(100, [&] { arrived[0] = queue.now(); });
    link.transfer(300, [&] { arrived[1] = queue.now(); });
    queue.at(2.5, [&] { link.transfer(50, [&] { arrived[2] = queue.now(); }); });
    queue.run();
    // Fair: 50 each until 2 s; 100 alone until 2.5 s, 150 left; two share until the small one has
    // its 50 at 3.5 s; the other 100 take until 4.5 s.
    CHECK(arrived[0] == doctest::Approx(sharing == Sharing::fair ? 2.25 : 1.25));
    CHECK(arrived[1] == doctest::Approx(sharing == Sharing::fair ? 4.75 : 4.25));
    CHECK(arrived[2] == doctest::Approx(sharing == Sharing::fair ? 3.75 : 4.75));
    CHECK(std::max(arrived[1], arrived[2]) == doctest::Approx(4.75));
    CHECK(link.busy_s() == doctest::Approx(4.5));
    CHECK(link.bytes() == 450);
    CHECK(link.under_way() == 0);
  }
}

TEST_CASE("links without bounds, without bytes, and bad ones") {
  EventQueue queue;
  Link fast(queue, kInfinite, 0.5);
  double first = 0, second = 0;
  fast.transfer(1e30, [&] { first = queue.now(); });
  fast.transfer(0, [&] { second = queue.now(); });
  queue.run();
  CHECK(first == 0.5);
  CHECK(second == 0.5);
  CHECK_THROWS_AS(Link(queue, 0, 0), ValueError);
  CHECK_THROWS_AS(Link(queue, std::nan(""), 0), ValueError);
  CHECK_THROWS_AS(Link(queue, 1, -1), ValueError);
  CHECK_THROWS_AS(fast.transfer(-1, {}), ValueError);
}

TEST_CASE("rings take 2(n-1) (latency + bytes / n / bandwidth)") {
  for (const int n : {2, 3, 4, 7, 16}) {
    CAPTURE(n);
    const Cluster cluster = one_node(n, 10e9, 5e-6);
    const double expected = 2 * (n - 1) * (5e-6 + 100e6 / n / 10e9);
    const auto cost = all_reduce_cost(100e6, n, cluster, {AllReduceAlgorithm::ring});
    CHECK(cost.seconds == doctest::Approx(expected).epsilon(1e-12));
    CHECK(simulate_ring(100e6, n, cluster) == doctest::Approx(expected).epsilon(1e-9));
    CHECK(cost.bytes_sent == doctest::Approx(2.0 * (n - 1) / n * 100e6));
  }
}

TEST_CASE("rings over nodes go at the pace of the slowest link, or of all their latencies") {
  const LinkSpeed nvlink{"", 100e9, 3e-6}, network{"", 10e9, 15e-6}, far{"", 100e9, 1e-3};
  for (const auto& between : {network, far})
    for (const double bytes : {1e4, 1e6, 1e8}) {
      CAPTURE(between.latency_s);
      CAPTURE(bytes);
      const Cluster cluster = nodes(4, nvlink, between);
      const double closed = all_reduce_cost(bytes, 32, cluster, {AllReduceAlgorithm::ring}).seconds;
      // The closed form ignores that the last round may be incomplete.
      CHECK(simulate_ring(bytes, 32, cluster) == doctest::Approx(closed).epsilon(0.05));
    }
}

TEST_CASE("trees take 2 bytes / bandwidth and two ways through their depth") {
  const Cluster cluster = one_node(64, 10e9, 5e-6);
  for (const int n : {2, 3, 8, 15, 16, 33, 64}) {
    CAPTURE(n);
    const double bytes = 64e6, chunk = 256e3;
    const double expected = 2 * bytes / 10e9 + 2 * std::ceil(std::log2(n)) * (5e-6 + chunk / 10e9);
    const auto cost = all_reduce_cost(bytes, n, cluster, {AllReduceAlgorithm::tree, chunk});
    CHECK(cost.seconds == doctest::Approx(expected).epsilon(1e-12));
    if (n > 2)  // two devices have nothing to forward
      CHECK(simulate_tree(bytes, n, cluster, chunk) == doctest::Approx(expected).epsilon(0.15));
    // Small messages: only latencies, which grow logarithmically.
    const double small = all_reduce_cost(8, n, cluster, {AllReduceAlgorithm::tree}).seconds;
    CHECK(small == doctest::Approx(2 * std::ceil(std::log2(n)) * 5e-6).epsilon(0.01));
    CHECK(simulate_tree(8, n, cluster) <= small * 1.01);
    CHECK(simulate_tree(8, n, cluster) > small * 0.45);
  }
}

TEST_CASE("hierarchical all-reduces are their three phases") {
  const LinkSpeed nvlink{"", 100e9, 3e-6}, network{"", 10e9, 15e-6};
  for (const int m : {1, 2, 4, 8})
    for (const double bytes : {1e5, 1e8}) {
      CAPTURE(m);
      CAPTURE(bytes);
      const Cluster cluster = nodes(8, nvlink, network);
      const double phases = 2 * 7 * (3e-6 + bytes / 8 / 100e9);
      const double ring = 2 * (m - 1) * (15e-6 + bytes / m / 10e9);
      const auto cost = all_reduce_cost(bytes, 8 * m, cluster, {AllReduceAlgorithm::hierarchical});
      CHECK(cost.seconds <= (phases + ring) * (1 + 1e-12));
      if (bytes > 1e6) CHECK(cost.seconds == doctest::Approx(phases + ring).epsilon(1e-9));
      CHECK(simulate_hierarchical(bytes, 8 * m, cluster) ==
            doctest::Approx(phases + ring).epsilon(1e-6));
    }
}

TEST_CASE("all-reduces: invariants") {
  const Cluster cluster = nodes(8, {"", 100e9, 3e-6}, {"", 10e9, 15e-6});
  for (const auto algorithm : {AllReduceAlgorithm::ring, AllReduceAlgorithm::tree,
                               AllReduceAlgorithm::hierarchical, AllReduceAlgorithm::fastest}) {
    CAPTURE(to_string(algorithm));
    CHECK(all_reduce_algorithm(to_string(algorithm)) == algorithm);
    const AllReduceOptions options{algorithm};
    CHECK(all_reduce_cost(1e8, 1, cluster, options).seconds == 0);
    CHECK(all_reduce_cost(1e8, 4096, perfect_cluster(), options).seconds == 0);
    double last = 0;
    for (const double bytes : {0.0, 1e3, 1e6, 1e9}) {  // more bytes take longer
      const double seconds = all_reduce_cost(bytes, 64, cluster, options).seconds;
      CHECK(seconds > last);
      last = seconds;
    }
    last = 0;
    for (const int n : {2, 8, 16, 128, 1024, 65536}) {  // and so do more devices
      const double seconds = all_reduce_cost(1e8, n, cluster, options).seconds;
      CHECK(seconds >= last);
      last = seconds;
      CHECK(all_reduce_cost(1e8, n, cluster).seconds <= seconds);
    }
  }
  // Rings are faster for few devices, trees for many.
  CHECK(all_reduce_cost(1e8, 65536, cluster, {AllReduceAlgorithm::ring}).seconds >
        4 * all_reduce_cost(1e8, 65536, cluster, {AllReduceAlgorithm::tree}).seconds);
  CHECK(all_reduce_cost(1e8, 8, cluster).algorithm != AllReduceAlgorithm::tree);
  CHECK(all_reduce_cost(1e4, 65536, cluster).algorithm != AllReduceAlgorithm::ring);

  CHECK_THROWS_AS(all_reduce_algorithm("star"), ValueError);
  CHECK_THROWS_AS(all_reduce_cost(1e8, 0, cluster), ValueError);
  CHECK_THROWS_AS(all_reduce_cost(-1, 2, cluster), ValueError);
  CHECK_THROWS_AS(all_reduce_cost(kInfinite, 2, cluster), ValueError);
  CHECK_THROWS_AS(simulate_hierarchical(1, 12, cluster), ValueError);
  CHECK_THROWS_AS(simulate_tree(1, 12, cluster), ValueError);
}

TEST_CASE("links by name and by figures") {
  for (const auto& preset : link_presets()) {
    CAPTURE(preset.name);
    CHECK(link_speed(preset.name).bandwidth == preset.bandwidth);
    CHECK(preset.bandwidth <= preset.nominal_bandwidth);
    CHECK(preset.latency_s > 0);
    CHECK_FALSE(preset.source.empty());
  }
  const LinkSpeed link = link_speed("11.5,14");
  CHECK(link.bandwidth == doctest::Approx(11.5e9));
  CHECK(link.latency_s == doctest::Approx(14e-6));
  for (const char* bad : {"", "token ring", "11.5", "0,14", "11,-1", "11,x", "11,1,2"})
    CHECK_THROWS_AS(link_speed(bad), ValueError);
  CHECK(cluster("nvlink3", "infiniband-hdr", 8, 4).node_link().bandwidth ==
        doctest::Approx(4 * 24e9));
  CHECK(cluster("pcie3", "roce-25g", 4).nodes(9) == 3);
  CHECK_THROWS_AS(cluster("pcie3", "roce-25g", 0), ValueError);
  CHECK_THROWS_AS(cluster("pcie3", "roce-25g", 4, 0), ValueError);
  Cluster bad = perfect_cluster();
  bad.inside.bandwidth = -1;
  CHECK_THROWS_AS(bad.check(), ValueError);
}

}  // namespace
