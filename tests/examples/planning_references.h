// What the planner is checked against: models given by sums, expectations and simulations that take
// longer than its closed forms.
#pragma once

#include <cstdint>
#include <string>

#include "ferrite/examples/compare_parallel/planning/all_reduce.h"
#include "ferrite/examples/compare_parallel/planning/failures.h"
#include "ferrite/examples/compare_parallel/planning/profile.h"
#include "ferrite/examples/compare_parallel/planning/stragglers.h"

namespace ferrite::planning {

/// A model of which only sums are known, as papers give them: `parameters` gradients of equal
/// bytes that come at equal distances in backward.
struct UniformModel {
  std::string model, device;
  std::int64_t batch = 1;
  std::int64_t gradient_bytes = 0;
  double forward_s = 0, backward_s = 0, optimizer_s = 0;
  int parameters = 50;
};
ModelProfile uniform_profile(const UniformModel& model);

/// All-reduces by events, message for message, on links that transfers share. O(devices^2) events
/// for rings.
double simulate_ring(double bytes, int devices, const Cluster& cluster);
double simulate_tree(double bytes, int devices, const Cluster& cluster,
                     double chunk_bytes = 256 * 1024);
double simulate_hierarchical(double bytes, int devices, const Cluster& cluster);

/// The expectation of the greatest of n draws, by integration: to 1e-6.
double expected_max(const Stragglers& stragglers, std::int64_t n);

/// goodput() by drawing failures, for a run of `work_s` seconds of training.
double sampled_goodput(const Failures& failures, std::int64_t devices, double work_s,
                       std::uint64_t seed);

}  // namespace ferrite::planning
