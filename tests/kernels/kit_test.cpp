// The kit detects kernels with a planted bug, on the host.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "ferrite/kernels/copy.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::Side;
using test::contains;
using test::message_of;

namespace {

/// The error of a kernel that should copy its input.
struct Bug {
  bool past_end = false;       // writes one element too many
  bool before_start = false;   // or one before the first
  std::int64_t forgets = -1;   // leaves this element
  bool changes_input = false;  // writes its input
  bool fills_gaps = false;     // writes all elements between the first and the last
  double factor = 1;           // is off by this factor
  bool rounds_down = false;    // assumes pointers aligned to 16 bytes
};

std::int64_t offset_of(const kernels::View& v, std::int64_t element) {
  std::int64_t offset = 0;
  for (int d = v.ndim - 1; d >= 0; --d) {
    offset += element % v.sizes[d] * v.strides[d];
    element /= v.sizes[d];
  }
  return offset;
}

/// Accesses for which AddressSanitizer would end the program.
template <class T>
[[gnu::no_sanitize_address, gnu::noinline]] T get(const T* p) {
  return *p;
}
template <class T>
[[gnu::no_sanitize_address, gnu::noinline]] void put(T* p, T value) {
  *p = value;
}

template <class T>
void copy_with(const Bug& bug, const kernels::View& out, const kernels::View& in) {
  const T* from = in.as<T>();
  if (bug.rounds_down)
    from = reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(from) / 16 * 16);
  const auto value = [&](std::int64_t i) {
    return static_cast<T>(bug.factor * static_cast<double>(get(from + offset_of(in, i))));
  };
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < out.numel; ++i) {
    last = std::max(last, offset_of(out, i));
    if (i != bug.forgets) out.as<T>()[offset_of(out, i)] = value(i);
  }
  if (bug.fills_gaps)
    for (std::int64_t i = 0; i < out.numel; ++i)
      for (std::int64_t at = 0; at <= last; ++at)
        if (std::isnan(static_cast<double>(out.as<T>()[at]))) out.as<T>()[at] = 0;
  if (bug.past_end) put(out.as<T>() + last + 1, value(0));
  if (bug.before_start) put(out.as<T>() - 1, value(0));
  if (bug.changes_input) in.as<T>()[offset_of(in, in.numel / 2)] = 7;
}

/// Only the kernel under test has the bug; the reference is correct.
void run_with(KernelCase& c, const Bug& bug, Operand out, Operand in) {
  const auto kernel = [&](const Bug& b) {
    return [=](const Stream& stream, const Side& at) {
      const kernels::View to = at(out), from = at(in);
      stream.enqueue([=] {
        dispatch_floating(to.dtype, "copy_with", [&]<class T>() { copy_with<T>(b, to, from); });
      });
    };
  };
  c.run(kernel(bug), kernel({}));
}

/// The kit's message for a copy [20, 7] with a bug; "" if it finds nothing.
std::string found(const Bug& bug, DType dtype = kFloat32, Layout layout = Layout::contiguous,
                  int misalignment = 0, kit::Tolerance tolerance = {}) {
  KernelCase c(Device("cpu"), 5);
  const Operand in = c.input({20, 7}, dtype, {.misalignment = misalignment, .low = 1});
  const Operand out = c.output({20, 7}, dtype, {.layout = layout, .misalignment = misalignment});
  try {
    run_with(c, bug, out, in);
    c.check(out, tolerance);
  } catch (const kit::Failure& failure) {
    return failure.what();
  }
  return "";
}

/// Sets an environment variable, or removes it (null), for the scope of the object.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Setting() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }

  const char* name_;
  std::optional<std::string> before_;
};

/// The default settings of cases, whatever the environment says.
struct DefaultCases {
  Setting seed{"FERRITE_KIT_SEED", nullptr}, cases{"FERRITE_KIT_CASES", nullptr},
      device{"FERRITE_KIT_DEVICE", "cpu"}, repeat{"FERRITE_KIT_REPEAT", nullptr};
};

}  // namespace

TEST_CASE("a kernel without a bug passes in every dtype and layout") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (Layout layout : {Layout::contiguous, Layout::permuted, Layout::gaps, Layout::any})
      for (int misalignment : {0, 1, 7}) CHECK(found({}, dtype, layout, misalignment) == "");
}

TEST_CASE("a kernel that writes past its output, or before it") {
  for (DType dtype : {kFloat32, kFloat16, kFloat64}) {
    CHECK(contains(found({.past_end = true}, dtype),
                   "operand 1 (out " + std::string(name(dtype)) +
                       " [20, 7]) was changed outside of its elements: 1 places, the first 1 past "
                       "its last element, from nan to "));
    CHECK(contains(found({.before_start = true}, dtype, Layout::contiguous, 3),
                   "1 before its first element"));
  }
}

TEST_CASE("a kernel that leaves an element unwritten") {
  const std::string text = found({.forgets = 9});
  CHECK(contains(text, "1 of 140 elements differ"));
  CHECK(contains(text, "1 were never written"));
  CHECK(contains(text, "first [1, 2] got nan, expected "));
  CHECK(contains(text, "(never written)"));
  // NaN as the correct value.
  KernelCase c(Device("cpu"), 1);
  const Tensor nans = empty({6}, {.dtype = kFloat64});
  for (int i = 0; i < 6; ++i) nans.data<double>()[i] = NAN;
  const Operand in = c.input(nans, kFloat32), out = c.output({6}, kFloat32);
  run_with(c, {.forgets = 4}, out, in);
  CHECK(
      contains(message_of<kit::Failure>([&] { c.check(out); }), "first [4] got nan, expected nan"));
}

TEST_CASE("a kernel that leaves integers unwritten") {
  for (DType dtype : {kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    CAPTURE(name(dtype));
    KernelCase c(Device("cpu"), 1);
    const Operand in = c.input({5}, dtype, {.low = -100, .high = 100}), out = c.output({5}, dtype);
    c.run([&](const Stream& stream, const Side& at) {
      if (!at.is_reference()) return;
      kernels::copy(stream, at(out), at(in));
    });
    const std::string text = message_of<kit::Failure>([&] { c.check(out); });
    CHECK(contains(text, "5 of 5 elements differ"));
    CHECK(contains(text, "were never written") == (itemsize(dtype) > 1));
    CHECK(contains(text, "(no bool)") == (dtype == kBool));
  }
}

TEST_CASE("a kernel that changes its input") {
  const std::string text = found({.changes_input = true});
  CHECK(contains(text, "operand 0 (in float32 [20, 7]) was changed although it is an input"));
  CHECK(contains(text, "the first at [10, 0], from "));
  CHECK(contains(text, " to 7"));
}

TEST_CASE("a kernel that writes into the gaps of its output") {
  KernelCase c(Device("cpu"), 3);
  const Operand in = c.input({20, 7}, kFloat32);
  const Operand out = c.output({20, 7}, kFloat32, {.layout = Layout::gaps});
  const std::string text =
      message_of<kit::Failure>([&] { run_with(c, {.fills_gaps = true}, out, in); });
  CHECK(contains(text, "operand 1 (out float32 [20, 7]) was changed outside of its elements"));
  CHECK(contains(text, "in a gap, "));
  CHECK(contains(text, "from its first element, from nan to 0"));
}

TEST_CASE("a kernel with an error above the tolerance, and one below") {
  struct Try {
    DType dtype;
    double allowed, refused;
  };
  for (const Try& t : {Try{kFloat32, 1 + 5e-6, 1 + 3e-5}, Try{kFloat64, 1 + 5e-13, 1 + 3e-12},
                       Try{kFloat16, 1 + 2e-4, 1 + 3e-3}, Try{kBFloat16, 1 + 1e-3, 1 + 3e-2}}) {
    CAPTURE(name(t.dtype));
    CHECK(found({.factor = t.allowed}, t.dtype) == "");
    const std::string text = found({.factor = t.refused}, t.dtype);
    CHECK(contains(text, "of 140 elements differ by more than rtol "));
    CHECK(contains(text, "\n    first ["));
    CHECK(contains(text, "FERRITE_KIT_SEED=5"));
  }
  CHECK(found({.factor = 1.01}, kFloat32, Layout::any, 0, {.rtol = 0.02}) == "");
  CHECK(found({.factor = 1.01}, kFloat32, Layout::any, 0, {.rtol = 0, .atol = 0.03}) == "");
  CHECK(found({.factor = 1.01}, kFloat32, Layout::any, 0, {.rtol = 0.001}) != "");
  CHECK(found({.factor = 1 + 1e-7}, kFloat32, Layout::any, 0, {.rtol = 0}) != "");
}

TEST_CASE("the first, the worst and the last bad element are named") {
  KernelCase c(Device("cpu"), 0);
  const Operand out = c.output({3, 4}, kFloat64);
  c.run([&](const Stream& stream, const Side& at) { kernels::fill(stream, at(out), 1.0); });
  std::vector<double> expected(12, 1.0);
  expected[2] = 1.5, expected[7] = 3, expected[9] = 0.75;
  const std::string text = message_of<kit::Failure>([&] { c.check_values(out, expected); });
  CHECK(contains(text, "operand 0 (out float64 [3, 4]): 3 of 12 elements differ"));
  CHECK(contains(text, "first [0, 2] got 1, expected 1.5, off by 0.5"));
  CHECK(contains(text, "worst [1, 3] got 1, expected 3, off by 2"));
  CHECK(contains(text, "last  [2, 1] got 1, expected 0.75, off by 0.25"));
  expected.pop_back();
  CHECK(contains(message_of<kit::Failure>([&] { c.check_values(out, expected); }),
                 "11 values are expected"));
}

TEST_CASE("a kernel that misreads misaligned pointers") {
  for (DType dtype : {kFloat32, kFloat16, kFloat64}) {
    CHECK(found({.rounds_down = true}, dtype, Layout::contiguous, 0) == "");
    const std::string text = found({.rounds_down = true}, dtype, Layout::contiguous, 1);
    CHECK(contains(text, "misaligned by 1"));
  }
  // Random alignments find it too.
  const DefaultCases settings;
  const std::string text = message_of<kit::Failure>([] {
    kit::for_each_case("rounds down", 20, [](KernelCase& c) {
      const Operand in = c.input({50}, kFloat32), out = c.output({50}, kFloat32);
      run_with(c, {.rounds_down = true}, out, in);
      c.check(out);
    });
  });
  CHECK(contains(text, "rounds down: "));
}

TEST_CASE("random alignments") {
  std::set<std::uintptr_t> offsets;
  int aligned = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    KernelCase c(Device("cpu"), seed);
    const Operand out = c.output({3}, kFloat16),
                  fixed = c.output({3}, kFloat16, {.misalignment = 5});
    c.run(
        [&](const Stream&, const Side& at) {
          const auto offset = reinterpret_cast<std::uintptr_t>(at(out).data) % 64;
          offsets.insert(offset);
          aligned += offset == 0;
          CHECK(reinterpret_cast<std::uintptr_t>(at(fixed).data) % 64 == 10);
        },
        [](const Stream&, const Side&) {});
  }
  CHECK(offsets == std::set<std::uintptr_t>{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(aligned > 80);
  CHECK(aligned < 160);
}

TEST_CASE("random layouts") {
  bool permuted = false, gaps = false, expanded = false, channels_last = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    KernelCase c(Device("cpu"), seed);
    const Shape shape{2, 3, 4, 5};
    const Operand in = c.input(shape, kFloat32, {.layout = Layout::any});
    const Operand out = c.output(shape, kFloat32, {.layout = Layout::any});
    run_with(c, {}, out, in);
    c.check(out);
    Strides strides = Shape::filled(4, 0);
    c.run([](const Stream&, const Side&) {},
          [&](const Stream&, const Side& at) {
            for (int d = 0; d < 4; ++d) strides[d] = at(in).strides[d];
          });
    const std::int64_t span = 1 + strides[0] + 2 * strides[1] + 3 * strides[2] + 4 * strides[3];
    channels_last |= strides == strides_of(shape, kChannelsLast);
    expanded |= strides[0] == 0 || strides[1] == 0 || strides[2] == 0 || strides[3] == 0;
    gaps |= span > shape.numel();
    permuted |= strides[0] == 1;
  }
  CHECK(channels_last);
  CHECK(expanded);
  CHECK(gaps);
  CHECK(permuted);
  KernelCase c(Device("cpu"), 0);
  CHECK_THROWS_AS(c.output({3, 4}, kFloat32, {.layout = Layout::expanded}), ValueError);
}

TEST_CASE("values are exact, including special ones") {
  // Adjacent values that double cannot distinguish.
  KernelCase c(Device("cpu"), 0);
  c.same_dtypes();
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  const Operand out = c.output({1}, kInt64);
  c.run([&](const Stream&, const Side& at) {
    at(out).as<std::int64_t>()[0] = big - (at.is_reference() ? 1 : 0);
  });
  CHECK_THROWS_AS(c.check(out), kit::Failure);

  for (DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kUInt8}) {
    KernelCase s(Device("cpu"), 1);
    const Operand in = s.input({300}, dtype, {.special = 0.5}), copy = s.output({300}, dtype);
    s.run([&](const Stream& stream, const Side& at) { kernels::copy(stream, at(copy), at(in)); });
    s.check(copy, {.rtol = 0});
    std::set<double> seen;
    int nans = 0;
    for (double v : s.result(copy).to_vector<double>())
      std::isnan(v) ? ++nans : (seen.insert(v), 0);
    CHECK((nans > 0) == is_floating(dtype));
    if (is_floating(dtype)) {
      CHECK(seen.contains(INFINITY));
      CHECK(seen.contains(-INFINITY));
    } else {
      CHECK(*seen.rbegin() > 100);
    }
  }
}

TEST_CASE("results that the output's dtype cannot represent may be infinite") {
  const auto check = [](double got, double expected) {
    KernelCase c(Device("cpu"), 0);
    const Operand out = c.output({1}, kFloat16);
    c.run([&](const Stream& stream, const Side& at) { kernels::fill(stream, at(out), got); });
    return message_of<kit::Failure>([&] { c.check_values(out, {expected}); }) == "no exception";
  };
  CHECK(check(INFINITY, 1e5));
  CHECK(check(-INFINITY, -65505));
  CHECK_FALSE(check(INFINITY, 60000));
  CHECK_FALSE(check(INFINITY, -1e5));
  CHECK_FALSE(check(1, INFINITY));
  CHECK_FALSE(check(NAN, 1));
  CHECK_FALSE(check(1, NAN));
  CHECK(check(NAN, NAN));
  // Subnormal halves are rounded to multiples of 2^-24.
  CHECK(check(3 * 0x1p-24, 3.4 * 0x1p-24));
  CHECK_FALSE(check(3 * 0x1p-24, 5 * 0x1p-24));
}

TEST_CASE("a report counts failed cases, and shows the first of them and how to run it") {
  const DefaultCases settings;
  const auto body = [](KernelCase& c) {
    const Operand out = c.output({4}, kFloat32);
    c.run([&](const Stream& stream, const Side& at) { kernels::fill(stream, at(out), 1); });
    CHECK(contains(kit::running_case(), "thirds on cpu, FERRITE_KIT_SEED="));
    if (std::strtoull(c.describe().c_str() + 25, nullptr, 10) % 3 == 2) c.fail("a third case");
    if (contains(c.describe(), "FERRITE_KIT_SEED=4:")) throw ValueError("[x] four");
  };
  std::string text = message_of<kit::Failure>([&] { kit::for_each_case("thirds", 12, body); });
  CHECK(contains(text,
                 "thirds: 5 of 12 cases on cpu failed; FERRITE_KIT_SEED=2 "
                 "FERRITE_KIT_CASES=1 FERRITE_KIT_DEVICE=cpu runs the first of them alone"));
  CHECK(contains(text,
                 "on cpu, FERRITE_KIT_SEED=2:\n  operand 0 (out float32 [4]), strides [1], "
                 "misaligned by "));
  CHECK(contains(text, "\n  * a third case"));
  CHECK(contains(text, "\n  * an exception: [x] four"));
  CHECK_FALSE(contains(text, "FERRITE_KIT_SEED=8:"));
  CHECK(kit::running_case() == "");

  const Setting seed("FERRITE_KIT_SEED", "5"), cases("FERRITE_KIT_CASES", "1");
  text = message_of<kit::Failure>([&] { kit::for_each_case("thirds", 12, body); });
  CHECK(contains(text, "thirds: 1 of 1 cases on cpu failed; FERRITE_KIT_SEED=5 "));
}

TEST_CASE("a kernel that ends the program: the last output names the case") {
  const DefaultCases settings;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    kit::for_each_case("aborts", 3, [](KernelCase& c) {
      c.output({4}, kFloat32);
      c.run([&](const Stream&, const Side&) {
        if (contains(kit::running_case(), "SEED=1:")) std::abort();
      });
    });
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(contains(text, "in aborts on cpu, FERRITE_KIT_SEED=1:\n  operand 0 (out float32 [4])"));
}

TEST_CASE("settings that are not numbers are rejected") {
  for (const char* bad : {"", "x", "3x", "-1", "99999999999999999999"}) {
    const Setting seed("FERRITE_KIT_SEED", bad);
    CHECK(contains(message_of<ValueError>([] { kit::for_each_case("bad", 1, [](KernelCase&) {}); }),
                   "expected a number"));
  }
}

TEST_CASE("kernels that give different bits when they run again") {
  const Setting repeat("FERRITE_KIT_REPEAT", "1");
  KernelCase c(Device("cpu"), 0);
  const Operand in = c.input({3, 4}, kFloat32), sum = c.inout({3, 4}, kFloat32);
  int runs = 0;
  const auto kernel = [&](bool steady) {
    return [&, steady](const Stream&, const Side& at) {
      if (at.is_reference()) return;
      for (int i = 0; i < 12; ++i) at(sum).as<float>()[i] += at(in).as<float>()[i];
      if (!steady && ++runs % 2 == 0) at(sum).as<float>()[6] = 9;
    };
  };
  c.run(kernel(true));  // the operands were restored before the second run
  CHECK(contains(message_of<kit::Failure>([&] { c.run(kernel(false)); }),
                 "1 of 12 elements have other bits when the kernel runs again, the first [1, 2]"));
}

TEST_CASE("wrong uses of the kit are reported") {
  KernelCase c(Device("cpu"), 0), other(Device("cpu"), 0);
  const Operand out = c.output({2}, kFloat32);
  CHECK_THROWS_AS(other.check(out), ValueError);
  CHECK_THROWS_AS(other.result(Operand()), ValueError);
  c.run([&](const Stream&, const Side& at) { CHECK(at(Operand()).data == nullptr); });
}
