// Inline PTX says the same as what the emulator runs in its place: each statement is taken from the
// source, interpreted by the PTX ISA's rules, and compared with the function around it.
#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include "ferrite/core/half.h"
#include "ferrite/emulator/portable.h"
#include "ferrite/kernels/cuda/mma.cuh"
#include "ferrite/tests/emulator/ptx.h"
#include "ferrite/tests/emulator/support.h"
#include "ferrite/tests/paths.h"

namespace emulator_test {

namespace {

using ferrite::BFloat16;
using ferrite::Half;
using ptx::Machine;
using ptx::Statement;

constexpr const char* kMma = "mma.sync.aligned.m16n8k16.row.col.f32.";
constexpr const char* kMatrices = "ldmatrix.sync.aligned.m8n8.x4.";

/// Instructions, and the `if constexpr` that chooses each: the tests below have a case for each.
const std::set<std::pair<std::string, std::string>> kKnown = {
    {std::string(kMma) + "f16.f16.f32", "kHalf"},
    {std::string(kMma) + "bf16.bf16.f32", "!(kHalf)"},
    {std::string(kMatrices) + "trans.shared.b16", "Transpose"},
    {std::string(kMatrices) + "shared.b16", "!(Transpose)"},
    {"cp.async.cg.shared.global", "kBytes==16"},
    {"cp.async.ca.shared.global", "!(kBytes==16)"},
    {"cp.async.commit_group", ""},
    {"cp.async.wait_group", ""},
    {"cvt.f32.f16", ""},
    {"cvt.rn.f16.f32", ""},
    {"cvt.rn.bf16.f32", ""},
};

std::string without_line_comments(std::string text) {
  for (std::size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at))
    text.erase(at, text.find('\n', at) - at);
  return text;
}

const std::vector<Statement>& statements() {
  static const std::vector<Statement> all = [] {
    std::vector<Statement> found;
    for (const char* folder : {"core", "kernels"})
      for (const auto& entry : std::filesystem::recursive_directory_iterator(
               std::filesystem::path(ferrite::test::source_dir()) / folder)) {
        const auto extension = entry.path().extension();
        if (extension != ".h" && extension != ".cuh" && extension != ".cu" && extension != ".cpp")
          continue;
        std::ifstream in(entry.path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        for (Statement& s :
             ptx::statements_of(entry.path().filename(), without_line_comments(text)))
          found.push_back(std::move(s));
      }
    return found;
  }();
  return all;
}

const Statement& statement(const std::string& opcode) {
  const auto found = std::find_if(statements().begin(), statements().end(),
                                  [&](const Statement& s) { return s.opcode() == opcode; });
  REQUIRE_MESSAGE(found != statements().end(), opcode);
  return *found;
}

std::mt19937& random_bits() {
  static std::mt19937 generator(20);
  return generator;
}
std::string indexed(const char* name, std::size_t i) {
  return name + ("[" + std::to_string(i) + "]");
}

// ---- mma

template <class S>
__global__ void multiply(const int* a, const int* b, int* sum) {
  const unsigned lane = threadIdx.x;
  unsigned left[4], right[2];
  float sums[4];
  for (unsigned i = 0; i < 4; ++i) left[i] = static_cast<unsigned>(a[4 * lane + i]);
  for (unsigned i = 0; i < 2; ++i) right[i] = static_cast<unsigned>(b[2 * lane + i]);
  for (unsigned i = 0; i < 4; ++i) sums[i] = std::bit_cast<float>(sum[4 * lane + i]);
  ferrite::kernels::cuda::multiply_fragments<S>(sums, left, right);
  for (unsigned i = 0; i < 4; ++i) sum[4 * lane + i] = std::bit_cast<int>(sums[i]);
}

/// Pairs of small integers: sums are exact in every order.
template <class S>
std::vector<int> integers(std::size_t count) {
  std::vector<int> pairs(count);
  const auto element = [] {
    return static_cast<unsigned>(S(static_cast<float>(random_bits()() % 17) - 8).bits);
  };
  for (int& pair : pairs) pair = static_cast<int>(element() | element() << 16);
  return pairs;
}
/// Any finite bits in the low half of every fourth lane's first register, else 0: at most one
/// product of a sum is not 0, and it is exact.
template <class S>
std::vector<int> lone_values(std::size_t registers) {
  std::vector<int> pairs(32 * registers);
  for (std::size_t lane = 0; lane < 32; lane += 4) {
    S value;
    do value.bits = static_cast<std::uint16_t>(random_bits()());
    while (!(std::abs(static_cast<float>(value)) < 1e15f));
    pairs[lane * registers] = value.bits;
  }
  return pairs;
}

/// Whether emulator and interpreter agree on a product.
template <class S>
bool products_agree(const Statement& s, const std::vector<int>& a, const std::vector<int>& b,
                    const std::vector<int>& sum) {
  Machine machine;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      machine.lanes[lane][indexed("a", i)] = static_cast<std::uint32_t>(a[4 * lane + i]);
      machine.lanes[lane][indexed("sum", i)] = static_cast<std::uint32_t>(sum[4 * lane + i]);
    }
    for (std::size_t i = 0; i < 2; ++i)
      machine.lanes[lane][indexed("b", i)] = static_cast<std::uint32_t>(b[2 * lane + i]);
  }
  machine.execute(s);
  const Ints left(a), right(b), result(sum);
  OK(run(nullptr, 1, 32, multiply<S>, left.get(), right.get(), result.get()));
  const std::vector<int> values = result.values();
  bool same = true;
  for (std::size_t i = 0; i < 128; ++i)
    same &= std::bit_cast<float>(values[i]) == std::bit_cast<float>(static_cast<std::uint32_t>(
                                                   machine.lanes[i / 4].at(indexed("sum", i % 4))));
  return same;
}

template <class S>
void test_products(const std::string& opcode) {
  const Statement& s = statement(opcode);
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<int> sum(128);
    CHECK(products_agree<S>(s, lone_values<S>(4), lone_values<S>(2), sum));
    for (int& x : sum)
      x = std::bit_cast<int>(static_cast<float>(static_cast<int>(random_bits()() % 999)));
    CHECK(products_agree<S>(s, integers<S>(128), integers<S>(64), sum));
  }
  // A mistake in the statement would be seen.
  for (const auto& [first, second] : {std::pair{5, 6}, {8, 9}}) {
    Statement wrong = s;
    std::swap(wrong.operands.at(static_cast<std::size_t>(first)).expression,
              wrong.operands.at(static_cast<std::size_t>(second)).expression);
    CHECK_FALSE(products_agree<S>(wrong, integers<S>(128), integers<S>(64), std::vector<int>(128)));
  }
}

// ---- ldmatrix

constexpr unsigned kRows = 48;  // of 16 bytes

template <bool Transpose>
__global__ void load(const int* memory, const int* rows, int* registers) {
  EMULATOR_SHARED_ALIGNED(16, shared, int[4 * kRows]);
  for (unsigned i = threadIdx.x; i < 4 * kRows; i += 32) shared[i] = memory[i];
  __syncthreads();
  unsigned fragments[4];
  const auto* const base = reinterpret_cast<const std::uint16_t*>(&shared[0]);
  ferrite::kernels::cuda::load_fragments<Transpose>(fragments, base + 8 * rows[threadIdx.x]);
  for (unsigned i = 0; i < 4; ++i) registers[4 * threadIdx.x + i] = static_cast<int>(fragments[i]);
}

template <bool Transpose>
bool loads_agree(const Statement& s) {
  std::vector<int> memory(4 * kRows), rows(32);
  for (int& x : memory) x = static_cast<int>(random_bits()());
  for (int& row : rows) row = static_cast<int>(random_bits()() % kRows);
  Machine machine(sizeof(int) * memory.size());
  std::memcpy(machine.shared.data(), memory.data(), machine.shared.size());
  for (std::size_t lane = 0; lane < 32; ++lane)
    machine.lanes[lane]["shared"] = static_cast<std::uint64_t>(16 * rows[lane]);
  machine.execute(s);
  const Ints from(memory), at(rows), result(128);
  OK(run(nullptr, 1, 32, load<Transpose>, from.get(), at.get(), result.get()));
  const std::vector<int> values = result.values();
  bool same = true;
  for (std::size_t i = 0; i < 128; ++i)
    same &= static_cast<std::uint32_t>(values[i]) ==
            machine.lanes[i / 4].at(indexed("fragments", i % 4));
  return same;
}

// ---- cp.async

constexpr unsigned kGroups = 3;

/// Each thread copies N elements of `from` in each of three groups, of which counts[] are read, and
/// shows what is there when one group may be in flight, and none.
template <int N, class T>
__global__ void copy(const T* from, const int* counts, T* first_two, T* all) {
  EMULATOR_SHARED_ALIGNED(16, shared, T[kGroups * 32 * N]);
  namespace cuda = ferrite::kernels::cuda;
  for (unsigned g = 0; g < kGroups; ++g) {
    const unsigned at = g * 32 + threadIdx.x;
    cuda::async_copy_part<N>(&shared[at * N], from + at * N, counts[at]);
    cuda::async_commit();
  }
  const auto show = [&](T* to, unsigned groups) {
    for (unsigned g = 0; g < groups; ++g)
      for (unsigned i = 0; i < N; ++i) {
        const unsigned at = (g * 32 + threadIdx.x) * N + i;
        to[at] = shared[at];
      }
  };
  cuda::async_wait<1>();
  show(first_two, kGroups - 1);
  cuda::async_wait<0>();
  show(all, kGroups);
}

template <int N, class T>
void test_copies(const std::string& opcode) {
  constexpr std::size_t kCount = kGroups * 32 * N, kInts = kCount * sizeof(T) / sizeof(int);
  std::vector<int> memory(kInts), counts(kGroups * 32);
  for (int& x : memory) x = static_cast<int>(random_bits()());
  for (int& count : counts) count = static_cast<int>(random_bits()() % (N + 1));
  const Ints first_two(kInts), all(kInts), from(memory), how_many(counts);
  OK(run(nullptr, 1, 32, copy<N, T>, reinterpret_cast<const T*>(from.get()), how_many.get(),
         reinterpret_cast<T*>(first_two.get()), reinterpret_cast<T*>(all.get())));

  Machine machine(kCount * sizeof(T));
  const auto set_all = [&](const char* name, std::uint64_t value) {
    for (auto& lane : machine.lanes) lane[name] = value;
  };
  set_all("kBytes", N * sizeof(T));
  for (std::size_t g = 0; g < kGroups; ++g) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t at = g * 32 + lane;
      auto& values = machine.lanes[lane];
      values["shared"] = at * N * sizeof(T);
      values["from"] = reinterpret_cast<std::uint64_t>(memory.data()) + at * N * sizeof(T);
      values["bytes"] = static_cast<std::uint64_t>(counts[at]) * sizeof(T);
    }
    machine.execute(statement(opcode));
    machine.execute(statement("cp.async.commit_group"));
  }
  const auto shows = [&](const Ints& emulated, std::size_t groups) {
    const std::vector<int> values = emulated.values();
    return std::memcmp(values.data(), machine.shared.data(), groups * 32 * N * sizeof(T)) == 0;
  };
  set_all("Pending", 1);
  machine.execute(statement("cp.async.wait_group"));
  CHECK(shows(first_two, kGroups - 1));
  CHECK_FALSE(shows(all, kGroups));
  set_all("Pending", 0);
  machine.execute(statement("cp.async.wait_group"));
  CHECK(shows(all, kGroups));
}

// ---- cvt

template <class To, class From, class Function>
void test_conversion(const std::string& opcode, const std::vector<From>& inputs,
                     const Function& replacement) {
  const Statement& s = statement(opcode);
  using Bits = std::conditional_t<sizeof(From) == 4, std::uint32_t, std::uint16_t>;
  using Result = std::conditional_t<sizeof(To) == 4, std::uint32_t, std::uint16_t>;
  const auto is_nan = [](Result bits) {
    if constexpr (sizeof(To) == 4)
      return (bits & 0x7fffffffu) > 0x7f800000u;
    else
      return std::isnan(static_cast<float>(std::bit_cast<To>(bits)));
  };
  std::size_t differ = 0;
  for (std::size_t begin = 0; begin < inputs.size(); begin += 32) {
    Machine machine;
    const auto input = [&](std::size_t lane) { return inputs[(begin + lane) % inputs.size()]; };
    for (std::size_t lane = 0; lane < 32; ++lane)
      machine.lanes[lane][s.operands.at(1).expression] = std::bit_cast<Bits>(input(lane));
    machine.execute(s);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const auto expected =
          static_cast<Result>(machine.lanes[lane].at(s.operands.at(0).expression));
      const auto result = std::bit_cast<Result>(replacement(input(lane)));
      // Which NaN it is, is left open.
      differ += !(expected == result || (is_nan(expected) && is_nan(result)));
    }
  }
  CHECK_MESSAGE(differ == 0, opcode);
}

std::vector<float> floats() {
  std::vector<float> values;
  for (int i = 0; i < 20'000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()())));
  // Of half's range, with ties between neighbours and their surroundings.
  for (std::uint32_t bits = 0; bits < 0x7c00u; bits += 7)
    for (const float tie : {0.25f, 0.5f, 0.75f}) {
      const float low =
          ferrite::detail::half_bits_to_float_portable(static_cast<std::uint16_t>(bits));
      const float high =
          bits == 0x7bffu
              ? 65536.0f
              : ferrite::detail::half_bits_to_float_portable(static_cast<std::uint16_t>(bits + 1));
      values.push_back(low + (high - low) * tie);
      values.push_back(-values.back());
      // The same between two of bfloat16.
      values.push_back(std::bit_cast<float>(bits << 17 | 0x8000u));
    }
  using Limits = std::numeric_limits<float>;
  for (const float x : {0.0f, -0.0f, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                        Limits::max(), Limits::denorm_min(), 65504.0f, 65519.0f, 65520.0f})
    values.push_back(x);
  return values;
}

}  // namespace

TEST_CASE("inline PTX: every statement has an interpretation, and a case here") {
  std::set<std::pair<std::string, std::string>> found;
  for (const Statement& s : statements()) {
    INFO(s.place, ": ", s.text, " if ", s.condition);
    CHECK(kKnown.count({s.opcode(), s.condition}) == 1);
    CHECK(found.insert({s.opcode(), s.condition}).second);
  }
  CHECK(found == kKnown);
}

TEST_CASE("inline PTX: products of fragments") {
  test_products<Half>(std::string(kMma) + "f16.f16.f32");
  test_products<BFloat16>(std::string(kMma) + "bf16.bf16.f32");
}

TEST_CASE("inline PTX: matrices from shared memory") {
  const Statement& rows = statement(std::string(kMatrices) + "shared.b16");
  const Statement& columns = statement(std::string(kMatrices) + "trans.shared.b16");
  for (int turn = 0; turn < 4; ++turn) {
    CHECK(loads_agree<false>(rows));
    CHECK(loads_agree<true>(columns));
  }
  CHECK_FALSE(loads_agree<true>(rows));
  Statement wrong = rows;
  std::swap(wrong.operands.at(1).expression, wrong.operands.at(2).expression);
  CHECK_FALSE(loads_agree<false>(wrong));
}

TEST_CASE("inline PTX: asynchronous copies") {
  test_copies<8, std::uint16_t>("cp.async.cg.shared.global");
  test_copies<4, std::uint32_t>("cp.async.cg.shared.global");
  test_copies<4, std::uint16_t>("cp.async.ca.shared.global");
  test_copies<1, std::uint32_t>("cp.async.ca.shared.global");
}

TEST_CASE("inline PTX: conversions") {
  namespace detail = ferrite::detail;
  std::vector<Half> halves(1 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  const auto from_half = [](Half x) { return detail::half_bits_to_float(x.bits); };
  test_conversion<float>("cvt.f32.f16", halves, from_half);
  const std::vector<float> values = floats();
  test_conversion<Half>("cvt.rn.f16.f32", values, detail::float_to_half_bits);
  test_conversion<Half>("cvt.rn.f16.f32", values, detail::float_to_half_bits_portable);
  test_conversion<BFloat16>("cvt.rn.bf16.f32", values, detail::float_to_bfloat16_bits);
}

TEST_CASE("inline PTX: the interpreter refuses what the ISA does not allow") {
  const auto refused = [](const std::string& source) {
    const std::vector<Statement> found = ptx::statements_of("a source", source);
    REQUIRE(found.size() == 1);
    Machine machine(64);
    for (auto& lane : machine.lanes) lane = {{"to", 0}, {"from", 16}, {"n", 4}, {"x", 0}};
    CHECK_THROWS_AS(machine.execute(found[0]), std::runtime_error);
  };
  refused(R"(asm("ex2.approx.f32 %0, %1;" : "=f"(x) : "f"(x));)");
  refused(R"(asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "r"(x));)");  // the type of a register
  refused(R"(asm("cvt.f32.f16 %0, %1;" :: "f"(x), "h"(x));)");   // not an output
  refused(R"(asm("cvt.f32.f16 %0, %1;" : "=f"(x), "=h"(x));)");  // not an input
  refused(R"(asm("cvt.f32.f16 %0;" : "=f"(x));)");               // one operand too few
  refused(R"(asm("cp.async.cg.shared.global [%0], [%1], 8;" :: "r"(to), "l"(from));)");
  refused(R"(asm("cp.async.ca.shared.global [%0], [%1], 12;" :: "r"(to), "l"(from));)");
  refused(R"(asm("cp.async.ca.shared.global [%0], [%1], 4, 8;" :: "r"(to), "l"(from));)");
  refused(R"(asm("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(n), "r"(from));)");
  refused(R"(asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %0, %0}, [%1];"
                 : "=r"(x) : "r"(to));)");
}

}  // namespace emulator_test
