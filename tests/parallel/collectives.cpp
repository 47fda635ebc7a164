#include "ferrite/tests/parallel/collectives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ferrite/core/stream.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/parallel/reduction_reference.h"

namespace ferrite::test {

namespace {

using namespace parallel;

Tensor make(DType dtype, int rank, std::int64_t n, const Device& device, std::uint64_t seed = 1) {
  const Tensor host = empty({n}, {.dtype = dtype});
  const std::vector<std::byte> bytes = values_of(dtype, rank, n, seed);
  if (n > 0) std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
  return host.to(device);
}

std::vector<std::byte> bytes_of(const Tensor& t) {
  const Tensor host = t.cpu();
  std::vector<std::byte> bytes(host.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), host.data_ptr(), bytes.size());
  return bytes;
}

/// Everything in these tests is exact except averages, which are rounded once or twice.
double tolerance(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return 0x1p-10;
    case kBFloat16:
      return 0x1p-7;
    case kFloat32:
      return 0x1p-22;
    default:
      return 0x1p-51;
  }
}

/// Elements [begin, begin + t.numel()) of the reduction; uint8 wraps around.
void check_reduced(const Tensor& t, ReduceOp op, int ranks, std::int64_t begin = 0,
                   std::uint64_t seed = 1) {
  const std::vector<double> got = t.cpu().to_vector<double>();
  const DType dtype = t.dtype();
  for (std::size_t i = 0; i < got.size(); ++i) {
    double want = reduced(dtype, op, ranks, begin + static_cast<std::int64_t>(i), seed);
    if (dtype == kUInt8) want = std::fmod(want, 256);
    const double allowed = op == ReduceOp::avg || op == ReduceOp::product
                               ? tolerance(dtype) * std::max(1.0, std::fabs(want))
                               : 0;
    if (!(std::fabs(got[i] - want) <= allowed)) {
      FAIL_CHECK(name(op) << " of " << t.describe() << ", element " << begin << " + " << i
                          << ": expected " << want << ", got " << got[i]);
      return;
    }
  }
}

void check_values(const Tensor& t, int rank, std::uint64_t seed = 1) {
  INFO(t.describe() << " of rank " << rank);
  CHECK(bytes_of(t) == values_of(t.dtype(), rank, t.numel(), seed));
}

bool fits(DType dtype, ReduceOp op) { return op != ReduceOp::avg || is_floating(dtype); }

std::vector<std::int64_t> sizes(DType dtype, std::int64_t large) {
  if (dtype == kFloat32 || dtype == kFloat16) return {0, 1, 2, 7, 1031, large};
  return {0, 1, 259};
}

void check_same_everywhere(ProcessGroup& group, const Tensor& t) {
  const Tensor all = empty({group.size() * t.numel()}, {.dtype = t.dtype(), .device = t.device()});
  group.all_gather(all, t.view({t.numel()})).wait();
  const std::vector<std::byte> mine = bytes_of(t), everyones = bytes_of(all);
  for (int r = 0; r < group.size(); ++r) {
    const auto at = everyones.begin() + static_cast<std::ptrdiff_t>(mine.size()) * r;
    CHECK_MESSAGE(std::equal(mine.begin(), mine.end(), at),
                  "rank " << group.rank() << " and rank " << r << " have other bits");
  }
}

void check_all_reduce(ProcessGroup& group, const Device& device, const CollectiveOptions& options) {
  for (const DType dtype : kReducedTypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!fits(dtype, op)) continue;
      for (const std::int64_t n : sizes(dtype, options.large)) {
        if (n == options.large && op != ReduceOp::sum && op != ReduceOp::avg) continue;
        const Tensor t = make(dtype, group.rank(), n, device);
        group.all_reduce(t, op).wait();
        check_reduced(t, op, group.size());
        if (n >= 259) check_same_everywhere(group, t);
        if (!options.ring || (n != 7 && n < 259)) continue;
        const Tensor ring = make(dtype, group.rank(), n, device);
        group.all_reduce(ring, op, AllReduceAlgorithm::ring).wait();
        check_reduced(ring, op, group.size());
      }
    }
  }
}

void check_rooted(ProcessGroup& group, const Device& device, const CollectiveOptions& options) {
  for (const DType dtype : kReducedTypes) {
    for (int root = 0; root < group.size(); ++root) {
      for (const std::int64_t n : sizes(dtype, options.large)) {
        const Tensor t = make(dtype, group.rank(), n, device);
        group.broadcast(t, root).wait();
        check_values(t, root);
        for (const ReduceOp op : kReduceOps) {
          if (!fits(dtype, op) || (n > 300 && op != ReduceOp::sum)) continue;
          const Tensor r = make(dtype, group.rank(), n, device);
          group.reduce(r, root, op).wait();
          if (group.rank() == root) check_reduced(r, op, group.size());
        }
      }
    }
  }
}

void check_gathers(ProcessGroup& group, const Device& device, const CollectiveOptions& options) {
  const int size = group.size(), rank = group.rank();
  for (const DType dtype : kReducedTypes) {
    for (const std::int64_t n : sizes(dtype, options.large)) {
      const Tensor out = empty({size, n}, {.dtype = dtype, .device = device});
      group.all_gather(out, make(dtype, rank, n, device)).wait();
      for (int r = 0; r < size; ++r) check_values(out[r], r);
      // In place: each rank's input is its own part of the output.
      const Tensor shared = empty({size, n}, {.dtype = dtype, .device = device});
      shared[rank].copy_(make(dtype, rank, n, device));
      group.all_gather(shared, shared[rank]).wait();
      for (int r = 0; r < size; ++r) check_values(shared[r], r);
      for (const ReduceOp op : kReduceOps) {
        if (!fits(dtype, op) || (n > 300 && op != ReduceOp::sum)) continue;
        const Tensor in = make(dtype, rank, size * n, device);
        const Tensor part = empty({n}, {.dtype = dtype, .device = device});
        group.reduce_scatter(part, in, op).wait();
        check_reduced(part, op, size, rank * n);
        CHECK(bytes_of(in) == values_of(dtype, rank, size * n));
        const Tensor own = in.view({size, n})[rank];
        group.reduce_scatter(own, in, op).wait();
        check_reduced(own, op, size, rank * n);
      }
    }
  }
}

void check_transfers(ProcessGroup& group, const Device& device, const CollectiveOptions& options) {
  const int size = group.size(), rank = group.rank();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (const DType dtype : kReducedTypes) {
    // All send before they receive, with more data than any link holds.
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{5}, 20 * options.large}) {
      if (n > options.large && dtype != kFloat32) continue;
      const Tensor in = make(dtype, rank, n, device), out = make(dtype, rank, n, device, 2);
      const Work sent = group.send(in, next);
      const Work received = group.recv(out, before);
      sent.wait();
      received.wait();
      check_values(out, before);
      CHECK((sent.is_completed() && received.is_completed()));
    }
  }
  // Several between the same two ranks, received in order, with a collective between.
  std::vector<Work> works;
  std::vector<Tensor> got;
  for (std::uint64_t i = 0; i < 4; ++i) {
    works.push_back(group.send(make(kFloat32, rank, 100, device, i), next));
    if (i == 1) group.barrier().wait();
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    got.push_back(empty({100}, {.device = device}));
    works.push_back(group.recv(got.back(), before));
  }
  for (const Work& work : works) work.wait();
  for (std::uint64_t i = 0; i < 4; ++i) check_values(got[i], before, i);
}

/// Several at once, waited for in reverse order, through dropped handles, and not at all.
void check_overlap(ProcessGroup& group, const Device& device) {
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (std::uint64_t i = 0; i < 8; ++i) {
    tensors.push_back(
        make(kFloat32, group.rank(), 1 + static_cast<std::int64_t>(i * i * 97), device, i));
    works.push_back(group.all_reduce(tensors.back()));
  }
  for (std::size_t i = 8; i-- > 0;) {
    works[i].wait();
    works[i].synchronize();
    CHECK(works[i].is_completed());
    check_reduced(tensors[i], ReduceOp::sum, group.size(), 0, i);
  }
  Tensor kept = make(kFloat32, group.rank(), 513, device);
  {
    const Work dropped = group.all_reduce(kept);
    const Work unreferenced = group.all_reduce(make(kFloat32, group.rank(), 77, device));
  }
  group.barrier().wait();
  check_reduced(kept, ReduceOp::sum, group.size());
  CHECK(Work().is_completed());
  Work().wait();
  const Work last = group.all_reduce(kept, ReduceOp::max);
  last.synchronize();
  if (const auto times = last.ran()) CHECK(times->first <= times->second);
}

/// The operation starts after the work on the stream, and work after wait() sees its result.
void check_streams(ProcessGroup& group, const Device& device) {
  const Tensor t = zeros({3000}, {.device = device});
  for (int i = 0; i < 20; ++i) t.add_(1);
  t.mul_(static_cast<double>(group.rank() + 1));
  const Work work = group.all_reduce(t);
  work.wait();
  t.add_(1);
  const double total = group.size() * (group.size() + 1) / 2.0;
  const std::vector<double> got = t.to_vector<double>();
  CHECK(std::count(got.begin(), got.end(), 20 * total + 1) == 3000);
}

void check_layouts(ProcessGroup& group, const Device& device) {
  const int size = group.size(), rank = group.rank();
  const Tensor base = full({6, 5}, 1.0 + rank, {.device = device});
  group.all_reduce(base.narrow(0, 2, 3)).wait();
  const double sum = size * (size + 1) / 2.0;
  const std::vector<double> got = base.to_vector<double>();
  for (int i = 0; i < 30; ++i)
    CHECK(got[static_cast<std::size_t>(i)] == (i >= 10 && i < 25 ? sum : 1.0 + rank));

  const Tensor values = make(kFloat32, rank, 2 * 3 * 4 * 5, device).view({2, 3, 4, 5});
  const Tensor nhwc = values.contiguous(kChannelsLast);
  group.all_reduce(nhwc).wait();
  CHECK(nhwc.is_contiguous(kChannelsLast));
  check_reduced(nhwc, ReduceOp::sum, size);
  const Tensor all = empty({2 * size, 3, 4, 5}, {.device = device, .memory_format = kChannelsLast});
  group.all_gather(all, values.contiguous(kChannelsLast)).wait();
  for (int r = 0; r < size; ++r) check_values(all.narrow(0, 2 * r, 2).contiguous(), r);

  const Tensor scalar = full({}, 2.0, {.device = device});
  group.all_reduce(scalar, ReduceOp::avg).wait();
  CHECK(scalar.item<double>() == 2);

  // Overwriting a tensor that the tape saved is detected.
  const std::uint32_t version = scalar.version();
  group.all_reduce(scalar).wait();
  CHECK(scalar.version() > version);
}

void check_arguments(ProcessGroup& group, const Device& device) {
  const int size = group.size();
  const Tensor t = zeros({2, 3}, {.device = device});
  const Tensor integers = zeros({2}, {.dtype = kInt64, .device = device});
  CHECK_THROWS_AS((void)group.all_reduce(Tensor()), ValueError);
  CHECK_THROWS_AS((void)group.all_reduce(t.t()), ValueError);
  CHECK_THROWS_AS((void)group.all_reduce(t.narrow(1, 0, 2)), ValueError);
  CHECK_THROWS_AS((void)group.all_reduce(zeros({2}, {.dtype = kBool, .device = device})),
                  DTypeError);
  CHECK_THROWS_AS((void)group.all_reduce(integers, ReduceOp::avg), DTypeError);
  CHECK_THROWS_AS((void)group.all_reduce(integers, ReduceOp::avg, AllReduceAlgorithm::ring),
                  DTypeError);
  CHECK_THROWS_AS((void)group.broadcast(t, size), ValueError);
  CHECK_THROWS_AS((void)group.broadcast(t, -1), ValueError);
  CHECK_THROWS_AS((void)group.reduce(t, size), ValueError);
  CHECK_THROWS_AS((void)group.send(t, group.rank()), ValueError);
  CHECK_THROWS_AS((void)group.recv(t, size), ValueError);
  CHECK_THROWS_AS((void)group.all_gather(zeros({size * 6 + 1}, {.device = device}), t), ShapeError);
  CHECK_THROWS_AS((void)group.all_gather(zeros({size * 2}, {.device = device}), integers),
                  DTypeError);
  CHECK_THROWS_AS((void)group.reduce_scatter(t, t.narrow(0, 0, 1)), ShapeError);
  CHECK_THROWS_AS((void)group.new_group({}), ValueError);
  CHECK_THROWS_AS((void)group.new_group({0, 0}), ValueError);
  CHECK_THROWS_AS((void)group.new_group({size}), ValueError);
  CHECK_THROWS_AS((void)group.new_group({0}, Milliseconds(0)), ValueError);
  if (size > 1) {
    const Tensor all = zeros({size, 4}, {.device = device});
    const int other = (group.rank() + 1) % size;
    CHECK_THROWS_AS((void)group.all_gather(all, all[other]), ValueError);
    CHECK_THROWS_AS((void)group.reduce_scatter(all[other], all), ValueError);
  }
  CHECK_FALSE(group.is_aborted());
}

void check_groups(ProcessGroup& group, const Device& device) {
  const int size = group.size(), rank = group.rank();
  // Halves, the second in reverse order.
  std::vector<int> even, odd;
  for (int r = 0; r < size; ++r) r % 2 == 0 ? even.push_back(r) : (void)odd.insert(odd.begin(), r);
  const auto first = group.new_group(even);
  const auto second = odd.empty() ? nullptr : group.new_group(odd, std::chrono::seconds(77));
  CHECK((first != nullptr) == (rank % 2 == 0));
  CHECK((second != nullptr) == (rank % 2 == 1));
  const auto& mine = rank % 2 == 0 ? first : second;
  const std::vector<int>& ranks = rank % 2 == 0 ? even : odd;
  REQUIRE(mine);
  CHECK(mine->size() == static_cast<int>(ranks.size()));
  CHECK(ranks[static_cast<std::size_t>(mine->rank())] == rank);
  CHECK(mine->backend() == group.backend());
  CHECK(mine->name() != group.name());
  if (rank % 2 == 1) CHECK(mine->timeout() == std::chrono::seconds(77));
  const Tensor t = full({9}, 1.0 + rank, {.device = device});
  mine->all_reduce(t).wait();
  double sum = 0;
  for (const int r : ranks) sum += 1 + r;
  CHECK(t.to_vector<double>() == std::vector<double>(9, sum));
  const Tensor b = full({2}, 1.0 + rank, {.device = device});
  mine->broadcast(b, mine->size() - 1).wait();
  CHECK(b.to_vector<double>() == std::vector<double>(2, 1.0 + ranks.back()));
  // A group of all, beside its parent.
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const auto twin = group.new_group(all);
  const Tensor x = make(kFloat32, rank, 5000, device), y = make(kFloat32, rank, 300, device);
  const Work a = group.all_reduce(x), c = twin->all_reduce(y, ReduceOp::max);
  c.wait();
  a.wait();
  check_reduced(x, ReduceOp::sum, size);
  check_reduced(y, ReduceOp::max, size);
  group.barrier().wait();
}

}  // namespace

void check_collectives(ProcessGroup& group, const Device& device,
                       const CollectiveOptions& options) {
  check_arguments(group, device);
  check_all_reduce(group, device, options);
  check_rooted(group, device, options);
  check_gathers(group, device, options);
  check_overlap(group, device);
  check_streams(group, device);
  check_layouts(group, device);
  if (options.send_recv) check_transfers(group, device, options);
  check_groups(group, device);
}

void check_disagreements(ProcessGroup& group, const Device& device) {
  if (group.size() == 1) return;
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  const bool odd = group.rank() == group.size() - 1;
  const auto zeros_of = [&](const Shape& shape, DType dtype = kFloat32) {
    return zeros(shape, {.dtype = dtype, .device = device});
  };
  const std::vector<std::function<void(ProcessGroup&)>> cases = {
      [&](ProcessGroup& g) { g.all_reduce(zeros_of({odd ? 4000 : 3000})).wait(); },
      [&](ProcessGroup& g) { g.all_reduce(zeros_of({8}, odd ? kInt32 : kFloat32)).wait(); },
      [&](ProcessGroup& g) {
        odd ? g.broadcast(zeros_of({8})).wait() : g.all_reduce(zeros_of({8})).wait();
      },
      [&](ProcessGroup& g) { g.broadcast(zeros_of({8}), odd ? 1 : 0).wait(); },
      [&](ProcessGroup& g) { odd ? g.barrier().wait() : g.all_reduce(zeros_of({8})).wait(); },
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i << " on rank " << group.rank());
    const auto lost = group.new_group(all);
    std::string said;
    try {
      cases[i](*lost);
    } catch (const DistributedError& e) {
      said = e.what();
    }
    CHECK_MESSAGE(said.find("rank ") != std::string::npos, said);
    CHECK_MESSAGE(said.find(i == 3   ? "broadcast"
                            : i == 4 ? "barrier"
                                     : "float32") != std::string::npos,
                  said);
    CHECK(lost->is_aborted());
    CHECK_THROWS_AS((void)lost->barrier(), DistributedError);
  }
  CHECK_FALSE(group.is_aborted());
  group.barrier().wait();
}

}  // namespace ferrite::test
