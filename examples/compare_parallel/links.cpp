// How long exchanges take between ranks, and between devices of one process.
#include <algorithm>
#include <chrono>
#include <functional>

#include "ferrite/core/stream.h"
#include "ferrite/examples/compare_parallel/measure.h"
#include "ferrite/examples/compare_parallel/strategies.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/process_group.h"
#include "ferrite/parallel/data_parallel/device_comm.h"

namespace examples::compare {

using namespace ferrite;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSizes[] = {64, 4 << 10, 64 << 10, 1 << 20, 8 << 20};
constexpr int kTimes = 15;

/// The median time of several exchanges of each size, and the line through the smallest and the
/// largest. `exchange` gets float32 numbers, and returns when they have arrived.
Link measure(const std::string& operation, std::string_view backend, int devices, double ways,
             const Device& device, const std::function<void(const Tensor&)>& exchange) {
  Link link{operation, std::string(backend), devices, 0, 0, {}};
  for (const std::int64_t bytes : kSizes) {
    const Tensor t = full({bytes / 4}, 1.0, {.device = device});
    Samples times;
    for (int i = 0; i <= kTimes; ++i) {
      const Clock::time_point start = Clock::now();
      exchange(t);
      const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
      if (i > 0) times.values.push_back(taken.count() / ways);  // the first warms up
    }
    link.times.push_back({bytes, times.median()});
  }
  const LinkTime small = link.times.front(), large = link.times.back();
  link.latency_us = small.ms * 1e3;
  // On a busy machine the smallest may take longer: then all of the time counts for the bytes.
  const double ms = large.ms > small.ms ? large.ms - small.ms : large.ms;
  link.bandwidth = static_cast<double>(large.bytes - small.bytes) / (ms * 1e-3);
  return link;
}

}  // namespace

std::vector<Link> measure_group_links(const Options& o) {
  const auto group = parallel::default_group();
  const int rank = group->rank();
  const Device device = device_of(o, rank, o.ranks == "thread");
  std::vector<Link> links;
  const auto add = [&](const std::string& operation, double ways, const auto& exchange) {
    group->barrier().synchronize();
    links.push_back(measure(operation, group->backend(), group->size(), ways, device, exchange));
  };
  // There and back.
  add("send", 2, [&](const Tensor& t) {
    if (rank == 0) {
      group->send(t, 1).synchronize();
      group->recv(t, 1).synchronize();
    } else if (rank == 1) {
      group->recv(t, 0).synchronize();
      group->send(t, 0).synchronize();
    }
  });
  add("all_reduce", 1,
      [&](const Tensor& t) { group->all_reduce(t, parallel::ReduceOp::avg).synchronize(); });
  add("ring_all_reduce", 1, [&](const Tensor& t) {
    group->all_reduce(t, parallel::ReduceOp::avg, parallel::AllReduceAlgorithm::ring).synchronize();
  });
  return links;
}

std::vector<Link> measure_device_links(const Options& o, int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(device_of(o, i, true));
  const auto comm = parallel::dp::make_device_comm(devices);
  const auto finish = [&] {
    for (const Device& device : devices) synchronize(device);
  };
  std::vector<Link> links;
  links.push_back(measure("broadcast", comm->backend(), count, 1, devices[0], [&](const Tensor& t) {
    comm->broadcast(std::span(&t, 1));
    finish();
  }));
  links.push_back(
      measure("reduce_add", comm->backend(), count, 1, devices[0], [&](const Tensor& t) {
        std::vector<std::vector<Tensor>> parts;
        for (std::size_t d = 1; d < devices.size(); ++d)
          parts.push_back({empty(t.shape(), {.device = devices[d]})});
        comm->reduce_add(parts);
        finish();
      }));
  return links;
}

}  // namespace examples::compare
