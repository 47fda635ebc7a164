#include "ferrite/parallel/comm/ring_all_reduce.h"

#include <doctest/doctest.h>

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/tests/parallel/reduction_reference.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

const std::atomic<bool> kNever = false;

links::Interrupt within(std::chrono::milliseconds time, const std::atomic<bool>& aborted = kNever) {
  return {"ring_all_reduce", aborted, std::chrono::steady_clock::now() + time};
}

/// Runs `f(rank, mesh)` in one thread per rank; returns the error of each, "" if none.
std::vector<std::string> run_threads(
    int ranks, const std::function<void(int rank, links::LinkMesh& links)>& f) {
  std::vector<std::unique_ptr<links::LinkMesh>> meshes = links::make_memory_links(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      try {
        f(rank, *meshes[at]);
      } catch (const std::exception& e) {
        errors[at] = e.what();
        meshes[at]->close();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void check_reduces(int ranks, std::int64_t n, DType dtype, ReduceOp op) {
  std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(ranks));
  const auto errors = run_threads(ranks, [&](int rank, links::LinkMesh& links) {
    std::vector<std::byte> data = test::values_of(dtype, rank, n);
    comm::ring_all_reduce(links, rank, ranks, data.data(), n, dtype, op,
                          within(std::chrono::seconds(60)));
    results[static_cast<std::size_t>(rank)] = data;
  });
  for (const std::string& error : errors) REQUIRE(error == "");
  CHECK(test::difference(results[0], dtype, op, ranks) == "");
  for (const auto& result : results) CHECK((result == results[0]));
}

}  // namespace

TEST_CASE("ring_all_reduce of every dtype and operation") {
  for (const int ranks : {3, 5})
    for (const DType dtype : test::kReducedTypes)
      for (const ReduceOp op : test::kReduceOps) {
        if (op == ReduceOp::avg && !is_floating(dtype)) continue;
        check_reduces(ranks, 17, dtype, op);  // at once
        // With the ring.
        const auto item = static_cast<std::int64_t>(itemsize(dtype));
        check_reduces(ranks, 100'001 / item / (ranks - 1), dtype, op);
      }
}

TEST_CASE("ring_all_reduce of any number of elements, among any number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 9})
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{ranks - 1},
                                 std::int64_t{ranks}, std::int64_t{1023}, std::int64_t{40961}})
      check_reduces(ranks, n, kFloat32, ReduceOp::avg);
  for (const std::int64_t n : {1, 32, 33, 34, 1000})  // with the ring, however few elements
    check_reduces(33, n, kFloat32, ReduceOp::sum);
}

TEST_CASE("ring_all_reduce of several blocks") {
  check_reduces(2, 300'001, kFloat32, ReduceOp::sum);
  check_reduces(3, 500'003, kFloat16, ReduceOp::avg);
  check_reduces(4, 1'000'003, kBFloat16, ReduceOp::sum);
  check_reduces(4, 1'000'003, kUInt8, ReduceOp::max);
}

TEST_CASE("ring_all_reduce adds 16-bit values in float32") {
  // In float16 every single addition to 2048 would be lost.
  for (const std::int64_t n : {5, 20'000}) {
    const auto errors = run_threads(5, [&](int rank, links::LinkMesh& links) {
      std::vector<Half> data(static_cast<std::size_t>(n), Half(rank == 0 ? 2048.0f : 0.5f));
      comm::ring_all_reduce(links, rank, 5, data.data(), n, kFloat16, ReduceOp::sum,
                            within(std::chrono::seconds(60)));
      for (const Half value : data)
        if (value != 2050.0f) throw std::runtime_error(std::to_string(float(value)));
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("operations of all sizes follow one another without a pause") {
  const std::int64_t sizes[] = {3, 70001, 1, 900, 0, 20000, 2048, 5};
  const auto errors = run_threads(3, [&](int rank, links::LinkMesh& links) {
    for (std::uint64_t round = 0; round < 24; ++round) {
      const std::int64_t n = sizes[round % 8];
      const DType dtype = test::kReducedTypes[round % 7];
      std::vector<std::byte> data = test::values_of(dtype, rank, n, round);
      comm::ring_all_reduce(links, rank, 3, data.data(), n, dtype, ReduceOp::sum,
                            within(std::chrono::seconds(60)));
      const std::string problem = test::difference(data, dtype, ReduceOp::sum, 3, round);
      if (!problem.empty()) throw std::runtime_error(problem);
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a rank that closes, is missing or is aborted ends ring_all_reduce on all ranks") {
  for (const std::int64_t n : {100, 300'000}) {
    std::vector<float> data(static_cast<std::size_t>(3 * n), 1.0f);
    const auto values = [&](int rank) { return data.data() + rank * n; };
    auto errors = run_threads(3, [&](int rank, links::LinkMesh& links) {
      if (rank == 1) return links.close();
      comm::ring_all_reduce(links, rank, 3, values(rank), n, kFloat32, ReduceOp::sum,
                            within(std::chrono::seconds(60)));
    });
    CHECK(errors[0] != "");
    CHECK(errors[2] != "");
    errors = run_threads(3, [&](int rank, links::LinkMesh& links) {
      if (rank != 1)
        comm::ring_all_reduce(links, rank, 3, values(rank), n, kFloat32, ReduceOp::sum,
                              within(std::chrono::milliseconds(50)));
    });
    CHECK((errors[0] + errors[2]).find("in time") != std::string::npos);
    CHECK(errors[0] != "");
    CHECK(errors[2] != "");
    std::atomic<bool> aborted = false;
    errors = run_threads(2, [&](int rank, links::LinkMesh& links) {
      if (rank == 1)
        aborted = true;
      else
        comm::ring_all_reduce(links, rank, 2, values(rank), n, kFloat32, ReduceOp::sum,
                              within(std::chrono::seconds(60), aborted));
    });
    CHECK(errors[0].find("aborted") != std::string::npos);
  }
}

TEST_CASE("ring_all_reduce refuses averages of integers") {
  std::int32_t value = 1;
  const auto mesh = links::make_memory_links(1);
  CHECK_THROWS_AS(comm::ring_all_reduce(*mesh[0], 0, 1, &value, 1, kInt32, ReduceOp::avg,
                                        within(std::chrono::seconds(1))),
                  DTypeError);
}
