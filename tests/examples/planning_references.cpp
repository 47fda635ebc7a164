#include "ferrite/tests/examples/planning_references.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <random>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/event_queue.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

ModelProfile uniform_profile(const UniformModel& model) {
  FERRITE_CHECK(model.parameters > 0, ValueError, kOp, "expected 1 parameter or more, got {}",
                model.parameters);
  ModelProfile profile{.model = model.model,
                       .dtype = "float32",
                       .device = model.device,
                       .batch = model.batch,
                       .forward = {model.forward_s},
                       .optimizer = {model.optimizer_s}};
  for (int i = 0; i < model.parameters; ++i)
    profile.parameters.push_back({.name = fmt::format("parameter{}", model.parameters - 1 - i),
                                  // Differences of rounded-down sums add up to the whole.
                                  .bytes = model.gradient_bytes * (i + 1) / model.parameters -
                                           model.gradient_bytes * i / model.parameters,
                                  .backward = {model.backward_s / model.parameters}});
  profile.step = {profile.step_s()};
  profile.check();
  return profile;
}

// ---- Stragglers and failures

double expected_max(const Stragglers& s, std::int64_t n) {
  const auto count = static_cast<double>(n);
  switch (s.kind) {
    case Stragglers::Kind::exponential: {
      // The n-th harmonic number: the sum to 1000, from there its asymptotic series.
      double harmonic = 0;
      const std::int64_t summed = std::min<std::int64_t>(n, 1000);
      for (std::int64_t i = 1; i <= summed; ++i) harmonic += 1 / static_cast<double>(i);
      const auto from = static_cast<double>(summed);
      harmonic += std::log(count / from) + (1 / count - 1 / from) / 2;
      return 1 + s.mean * harmonic;
    }
    case Stragglers::Kind::occasional:
      return 1 + (s.factor - 1) * -std::expm1(count * std::log1p(-s.probability));
    case Stragglers::Kind::log_normal: {
      if (n == 1) return std::exp(s.sigma * s.sigma / 2);
      // By Simpson's rule over z from -9 to 9: exp(s.sigma z) times the density of the maximum,
      // n phi(z) Phi(z)^(n-1).
      constexpr int kSteps = 3600;
      constexpr double kWidth = 18.0 / kSteps;
      double sum = 0;
      for (int i = 0; i <= kSteps; ++i) {
        const double z = -9 + kWidth * i;
        const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
        const double below = std::log1p(-0.5 * std::erfc(z / std::numbers::sqrt2));
        const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * std::exp(s.sigma * z + (count - 1) * below) * count * density;
      }
      return sum * kWidth / 3;
    }
    case Stragglers::Kind::none:
      break;
  }
  return 1;
}

double sampled_goodput(const Failures& failures, std::int64_t devices, double work_s,
                       std::uint64_t seed) {
  const double interval = checkpoint_interval_s(failures, devices);
  const double mtbf = failures.mtbf_s(devices);
  FERRITE_CHECK(std::isfinite(work_s) && work_s > 0, ValueError, "failures",
                "expected more than 0 s of work, got {}", work_s);
  std::mt19937_64 generator(seed);
  const auto next_failure = [&] {
    if (std::isinf(mtbf)) return mtbf;
    return -mtbf * std::log((static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53);
  };
  double time = 0, done = 0, until_failure = next_failure();
  bool restarting = false;
  while (done < work_s) {
    // As in the closed form a failure may come while the run restarts or writes a checkpoint.
    const double work = std::min(interval, work_s - done);
    const double segment = restarting ? failures.restart_s : work + failures.checkpoint_s;
    if (until_failure <= segment) {
      time += until_failure;
      until_failure = next_failure();
      restarting = true;
      continue;
    }
    time += segment;
    until_failure -= segment;
    if (!restarting) done += work;
    restarting = false;
  }
  return work_s / time;
}

// ---- All-reduces message for message

namespace {

void check(double bytes, int devices, const Cluster& cluster) {
  cluster.check();
  FERRITE_CHECK(devices > 0, ValueError, kOp, "expected 1 device or more, got {}", devices);
  FERRITE_CHECK(std::isfinite(bytes) && bytes >= 0, ValueError, kOp,
                "expected 0 bytes or more to all-reduce, got {}", bytes);
}

std::unique_ptr<Link> make_link(EventQueue& queue, const LinkSpeed& speed) {
  return std::make_unique<Link>(queue, speed.bandwidth, speed.latency_s, Sharing::in_order);
}

/// Members that pass parts on, `steps` times: a member sends for the k-th time when it is ready and
/// has received k parts.
class Ring {
 public:
  /// links[i] is that from member i to the next. `done(i)` when member i has received all parts.
  Ring(std::vector<Link*> links, int steps, double part, std::function<void(int)> done)
      : links_(std::move(links)),
        steps_(steps),
        part_(part),
        done_(std::move(done)),
        members_(links_.size()) {}

  void ready(int member) {
    members_[member].ready = true;
    if (steps_ == 0) return done_(member);
    send(member);
  }

 private:
  struct Member {
    bool ready = false;
    int received = 0, sent = 0;
  };

  void send(int i) {
    Member& member = members_[i];
    if (!member.ready) return;
    while (member.sent < steps_ && member.sent <= member.received) {
      ++member.sent;
      const int next = (i + 1) % static_cast<int>(members_.size());
      links_[i]->transfer(part_, [this, next] {
        ++members_[next].received;
        send(next);
        if (members_[next].received == steps_) done_(next);
      });
    }
  }

  std::vector<Link*> links_;
  int steps_;
  double part_;
  std::function<void(int)> done_;
  std::vector<Member> members_;
};

/// A binary tree over 1..n in which odd numbers are leaves, and that over the same numbers in the
/// opposite order (n even) or moved by one (n odd), in which those are not.
int parent(int member, int n, bool second) {
  const auto in_order = [n](int i) {  // 0 for the root
    const int bit = i & -i;
    const int up = (i ^ bit) | (bit << 1);
    return up <= n ? up : i ^ bit;
  };
  if (!second) return in_order(member);
  const auto map = [n](int i) { return n % 2 == 0 ? n + 1 - i : i % n + 1; };
  const auto back = [n](int i) { return n % 2 == 0 ? n + 1 - i : (i + n - 2) % n + 1; };
  const int up = in_order(map(member));
  return up == 0 ? 0 : back(up);
}

/// One of the two trees, and the pieces that go up and down in it.
class Tree {
 public:
  Tree(int n, bool second, int pieces, double piece, const std::vector<std::unique_ptr<Link>>& out)
      : up_(n + 1),
        children_(n + 1),
        waits_(n + 1, std::vector<int>(pieces)),
        piece_(piece),
        out_(out) {
    for (int i = 1; i <= n; ++i) {
      up_[i] = parent(i, n, second);
      if (up_[i] > 0) children_[up_[i]].push_back(i);
    }
    for (int i = 1; i <= n; ++i)
      std::ranges::fill(waits_[i], static_cast<int>(children_[i].size()));
  }

  void start(int pieces) {
    for (int p = 0; p < pieces; ++p)
      for (int i = 1; i < static_cast<int>(up_.size()); ++i)
        if (children_[i].empty()) complete(i, p);
  }

 private:
  void complete(int i, int p) {
    if (up_[i] == 0) return down(i, p);
    out_[i]->transfer(piece_, [this, to = up_[i], p] {
      if (--waits_[to][p] == 0) complete(to, p);
    });
  }
  void down(int i, int p) {
    for (const int child : children_[i])
      out_[i]->transfer(piece_, [this, child, p] { down(child, p); });
  }

  std::vector<int> up_;
  std::vector<std::vector<int>> children_;
  std::vector<std::vector<int>> waits_;
  double piece_;
  const std::vector<std::unique_ptr<Link>>& out_;
};

}  // namespace

double simulate_ring(double bytes, int devices, const Cluster& cluster) {
  check(bytes, devices, cluster);
  if (devices == 1) return 0;
  EventQueue queue;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<Link*> pointers;
  const auto node = [&](int device) { return device % devices / cluster.devices_per_node; };
  for (int i = 0; i < devices; ++i) {
    links.push_back(
        make_link(queue, node(i) == node(i + 1) ? cluster.inside : cluster.node_link()));
    pointers.push_back(links.back().get());
  }
  Ring ring(pointers, 2 * (devices - 1), bytes / devices, [](int) {});
  queue.at(cluster.launch_s, [&] {
    for (int i = 0; i < devices; ++i) ring.ready(i);
  });
  queue.run();
  return queue.now();
}

double simulate_tree(double bytes, int devices, const Cluster& cluster, double chunk_bytes) {
  check(bytes, devices, cluster);
  FERRITE_CHECK(devices <= cluster.devices_per_node || cluster.devices_per_node == 1, ValueError,
                kOp, "expected one node, or nodes of one device, got {} devices in nodes of {}",
                devices, cluster.devices_per_node);
  FERRITE_CHECK(chunk_bytes > 0, ValueError, kOp, "expected chunks of more than 0 bytes, got {}",
                chunk_bytes);
  if (devices == 1) return 0;
  EventQueue queue;
  std::vector<std::unique_ptr<Link>> out(1);
  for (int i = 0; i < devices; ++i)
    out.push_back(
        make_link(queue, cluster.devices_per_node == 1 ? cluster.node_link() : cluster.inside));
  const int pieces = std::max(1, static_cast<int>(std::ceil(bytes / 2 / chunk_bytes)));
  Tree first(devices, false, pieces, bytes / 2 / pieces, out);
  Tree second(devices, true, pieces, bytes / 2 / pieces, out);
  queue.at(cluster.launch_s, [&] {
    first.start(pieces);
    second.start(pieces);
  });
  queue.run();
  return queue.now();
}

double simulate_hierarchical(double bytes, int devices, const Cluster& cluster) {
  check(bytes, devices, cluster);
  const int g = std::min(devices, cluster.devices_per_node), m = cluster.nodes(devices);
  FERRITE_CHECK(devices == g * m, ValueError, kOp,
                "expected full nodes of {} devices, got {} devices", g, devices);
  if (devices == 1) return 0;
  EventQueue queue;
  std::vector<std::unique_ptr<Link>> inside, outside;
  for (int i = 0; i < devices; ++i) inside.push_back(make_link(queue, cluster.inside));
  for (int node = 0; node < m; ++node) {
    const LinkSpeed speed = cluster.node_link();
    outside.push_back(std::make_unique<Link>(queue, speed.bandwidth, speed.latency_s));
  }
  std::vector<std::unique_ptr<Ring>> scatters, exchanges, gathers;
  for (int node = 0; node < m; ++node) {
    std::vector<Link*> links;
    for (int i = 0; i < g; ++i) links.push_back(inside[node * g + i].get());
    gathers.push_back(std::make_unique<Ring>(links, g - 1, bytes / g, [](int) {}));
    scatters.push_back(std::make_unique<Ring>(
        links, g - 1, bytes / g, [&exchanges, node](int i) { exchanges[i]->ready(node); }));
  }
  for (int i = 0; i < g; ++i) {
    std::vector<Link*> links;
    for (int node = 0; node < m; ++node) links.push_back(outside[node].get());
    exchanges.push_back(std::make_unique<Ring>(
        links, 2 * (m - 1), bytes / g / m, [&gathers, i](int node) { gathers[node]->ready(i); }));
  }
  queue.at(cluster.launch_s, [&] {
    for (auto& scatter : scatters)
      for (int i = 0; i < g; ++i) scatter->ready(i);
  });
  queue.run();
  return queue.now();
}

}  // namespace ferrite::planning
