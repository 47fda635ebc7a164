#include "ferrite/kernels/copy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ferrite/core/parallel_for.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/kernels/layouts.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

constexpr DType kAll[] = {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                          kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

template <class T>
std::vector<T> samples() {
  if constexpr (std::is_same_v<T, bool>)
    return {false, true, true, false, true};
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return {0, 1, 2, 127, 128, 255};
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return {0, 1, -1, 255, 256, -300, 2049, INT32_MAX, INT32_MIN};
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return {0, 1, -1, 300, INT32_MAX, 1 << 24, INT64_MAX, INT64_MIN, (std::int64_t{1} << 53) + 1};
  else
    return {T(0.F),    T(-0.F),   T(1.F),    T(-1.F),    T(0.5F),    T(0.99F), T(-0.99F),
            T(1.5F),   T(-2.75F), T(100.F),  T(-100.3F), T(3.1416F), T(1e-5F), T(255.F),
            T(256.5F), T(1e-8F),  T(2048.F), T(1234.5F), T(-3e4F)};
}

/// The result of copying an `A`, as specified in the header.
template <class Out, class A>
Out cast(A x) {
  const auto value = static_cast<Compute<A>>(x);
  if constexpr (std::is_same_v<Out, bool>)
    return value != Compute<A>(0);
  else if constexpr (is_half_type<Out>)
    return Out(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<Compute<A>> && std::is_integral_v<Out>)
    return static_cast<Out>(static_cast<std::int64_t>(value));  // negative floats to uint8
  else
    return static_cast<Out>(value);
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class A, class Out>
void check_pair() {
  CAPTURE(dtype_of<A>);
  CAPTURE(dtype_of<Out>);
  const std::vector<A> values = samples<A>();
  const auto n = static_cast<std::int64_t>(values.size());
  // Contiguously, and with strides on both sides.
  const Tensor in = from_vector(values, {n});
  const Tensor wide = empty({n, 3}, {.dtype = dtype_of<A>});
  const Tensor spread = geometry::apply(wide, geometry::select(wide, 1, 1));
  kernels::copy(Stream(), spread, in);
  const Tensor out = empty({n}, {.dtype = dtype_of<Out>});
  const Tensor gaps = empty({n, 2}, {.dtype = dtype_of<Out>});
  const Tensor out_spread = geometry::apply(gaps, geometry::select(gaps, 1, 0));
  kernels::copy(Stream(), out, in);
  kernels::copy(Stream(), out_spread, spread);
  for (std::int64_t i = 0; i < n; ++i) {
    CAPTURE(i);
    const Out expected = cast<Out>(static_cast<A>(values[static_cast<std::size_t>(i)]));
    CHECK(same_bits(out.data<Out>()[i], expected));
    CHECK(same_bits(out_spread.data<Out>()[2 * i], expected));
  }
}

template <class A>
void check_pairs_from() {
  check_pair<A, float>();
  check_pair<A, double>();
  check_pair<A, Half>();
  check_pair<A, BFloat16>();
  check_pair<A, std::int64_t>();
  check_pair<A, std::int32_t>();
  check_pair<A, std::uint8_t>();
  check_pair<A, bool>();
}

/// Different values in every byte position.
void fill_bytes(const Tensor& t, unsigned seed) {
  auto* bytes = static_cast<unsigned char*>(t.storage()->data());
  for (std::size_t i = 0; i < t.storage()->nbytes(); ++i)
    bytes[i] = static_cast<unsigned char>((i * 167 + seed * 13 + (i >> 8) * 31) % 251);
}

void check_moved(const Tensor& out, const Tensor& in) {
  const auto to = offsets_of(out), from = offsets_of(in);
  const auto size = in.itemsize();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < to.size(); ++i)
    wrong +=
        std::memcmp(static_cast<char*>(out.data_ptr()) + to[i] * static_cast<std::int64_t>(size),
                    static_cast<char*>(in.data_ptr()) + from[i] * static_cast<std::int64_t>(size),
                    size) != 0;
  CHECK_MESSAGE(wrong == 0, in.describe(), in.strides().str(), " to ", out.strides().str());
}

}  // namespace

TEST_CASE("every pair of dtypes converts as a cast does, in runs and through strides") {
  check_pairs_from<float>();
  check_pairs_from<double>();
  check_pairs_from<Half>();
  check_pairs_from<BFloat16>();
  check_pairs_from<std::int64_t>();
  check_pairs_from<std::int32_t>();
  check_pairs_from<std::uint8_t>();
  check_pairs_from<bool>();
}

TEST_CASE("NaN and infinity are preserved between floating types, and are true") {
  const Tensor in = from_vector(std::vector<double>{NAN, INFINITY, -INFINITY, 1e300, -1e300}, {5});
  for (DType dtype : {kFloat32, kFloat16, kBFloat16}) {
    const Tensor out = empty({5}, {.dtype = dtype});
    kernels::copy(Stream(), out, in);
    check_close(out, {NAN, INFINITY, -INFINITY, INFINITY, -INFINITY}, 0);
  }
  const Tensor out = empty({5}, {.dtype = kBool});
  kernels::copy(Stream(), out, in);
  check_close(out, {1, 1, 1, 1, 1}, 0);
}

TEST_CASE("copies between random layouts move every element and nothing else") {
  Generator random(1);
  for (int round = 0; round < 400; ++round) {
    const DType dtype = kAll[random.next_below(8)];
    const Shape shape = random_shape(random, 5, 7);
    Tensor in = random_layout(random, shape, dtype);
    if (random.next_below(4) == 0) in = randomly_expanded(random, in);
    const Tensor out = random_layout(random, shape, dtype);
    fill_bytes(in, 1);
    fill_bytes(out, 2);
    if (dtype == kBool)  // bytes other than 0 and 1 are not valid bools
      for (const Tensor& t : {in, out}) {
        auto* bytes = static_cast<unsigned char*>(t.storage()->data());
        for (std::size_t i = 0; i < t.storage()->nbytes(); ++i) bytes[i] &= 1;
      }
    const auto before = bytes_of_storage(out);
    kernels::copy(Stream(), out, in);
    check_moved(out, in);
    CHECK(untouched_outside(out, before));
  }
}

TEST_CASE("conversions between random layouts") {
  Generator random(2);
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(random, 5, 7);
    Tensor in = random_layout(random, shape, kInt32);
    auto* values = static_cast<std::int32_t*>(in.storage()->data());
    for (std::size_t i = 0; i < in.storage()->nbytes() / 4; ++i)
      values[i] = static_cast<std::int32_t>(i * 7 % 1000);
    if (random.next_below(4) == 0) in = randomly_expanded(random, in);
    const Tensor out = random_layout(random, shape, kFloat32);
    fill_bytes(out, 3);
    const auto before = bytes_of_storage(out);
    kernels::copy(Stream(), out, in);
    check_close(out, in.to_vector<double>(), 0);
    CHECK(untouched_outside(out, before));
  }
}

TEST_CASE("transposes: matrices and images, whole and in part, of every element size") {
  for (DType dtype : {kUInt8, kFloat16, kFloat32, kFloat64})
    for (std::int64_t rows : {1, 2, 15, 16, 17, 33, 200})
      for (std::int64_t cols : {1, 3, 16, 31, 257}) {
        const Tensor in = empty({cols, rows + 1}, {.dtype = dtype});
        fill_bytes(in, 5);
        const Tensor part = geometry::apply(in, geometry::narrow(in, 1, 1, rows));
        const Tensor view = geometry::apply(part, geometry::transpose(part, 0, 1));
        const Tensor out = empty({rows, cols}, {.dtype = dtype});
        kernels::copy(Stream(), out, view);
        check_moved(out, view);
      }
  for (std::int64_t n : {1, 2, 5})
    for (std::int64_t c : {1, 3, 16, 20})
      for (std::int64_t hw : {1, 4, 7, 28}) {
        const Shape shape{n, c, hw, hw};
        const Tensor nchw = empty(shape), nhwc = empty(shape, {.memory_format = kChannelsLast});
        fill_bytes(nchw, 6);
        kernels::copy(Stream(), nhwc, nchw);
        check_moved(nhwc, nchw);
        const Tensor back = empty(shape);
        kernels::copy(Stream(), back, nhwc);
        check_moved(back, nchw);
      }
}

TEST_CASE("copies of all sizes around the chunks that threads take, for several thread counts") {
  const int threads = num_threads();
  for (int count : {1, 2, 5}) {
    set_num_threads(count);
    for (std::int64_t n : {16383, 16384, 16385, 65536, 65537, 200001}) {
      const Tensor in = empty({n}), out = empty({n}), halves = empty({n}, {.dtype = kFloat16});
      for (std::int64_t i = 0; i < n; ++i) in.data<float>()[i] = static_cast<float>(i % 1021);
      kernels::copy(Stream(), out, in);
      check_moved(out, in);
      kernels::copy(Stream(), halves, in);
      check_close(halves, in, 0);
      const Tensor column = geometry::as_strided(in, {n / 3, 3}, {1, n / 3}, 0);
      const Tensor rows = empty({n / 3, 3});
      kernels::copy(Stream(), rows, column);
      check_moved(rows, column);
    }
  }
  set_num_threads(threads);
}

TEST_CASE("copying a tensor onto itself changes nothing") {
  const Tensor t = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  kernels::copy(Stream(), t, t);
  check_close(t, {1, 2, 3, 4, 5, 6}, 0);
  // The same memory with dimensions of size 1, whose strides are irrelevant.
  kernels::copy(Stream(), geometry::as_strided(t, {1, 6}, {17, 1}, 0),
                geometry::as_strided(t, {1, 6}, {6, 1}, 0));
  check_close(t, {1, 2, 3, 4, 5, 6}, 0);
}

TEST_CASE("nothing to copy") {
  kernels::copy(Stream(), empty({0}), empty({0}));
  kernels::copy(Stream(), empty({3, 0, 2}, {.dtype = kInt64}), empty({3, 0, 2}));
  const Tensor one = empty({});
  kernels::copy(Stream(), one, from_vector(std::vector<double>{2.5}, {}));
  CHECK(one.item<float>() == 2.5F);
}

TEST_CASE("fill writes every element of any layout and nothing else") {
  Generator random(3);
  for (int round = 0; round < 200; ++round) {
    const DType dtype = kAll[random.next_below(8)];
    const Tensor t = random_layout(random, random_shape(random, 5, 7), dtype);
    fill_bytes(t, 1);
    const auto before = bytes_of_storage(t);
    kernels::fill(Stream(), t, 1);
    check_close(t, std::vector<double>(static_cast<std::size_t>(t.numel()), 1.0), 0);
    CHECK(untouched_outside(t, before));
  }
  const Tensor large = empty({100003}, {.dtype = kInt64});
  kernels::fill(Stream(), large, INT64_MAX);
  for (std::int64_t i = 0; i < large.numel(); ++i)
    if (large.data<std::int64_t>()[i] != INT64_MAX) FAIL("element ", i);
}

TEST_CASE("fill converts its value") {
  const auto filled = [](DType dtype, Scalar value) {
    const Tensor t = empty({2}, {.dtype = dtype});
    kernels::fill(Stream(), t, value);
    return t.to_vector<double>()[1];
  };
  CHECK(filled(kBool, 0.5) == 1);
  CHECK(filled(kBool, 0) == 0);
  CHECK(filled(kInt64, 2.9) == 2);
  CHECK(filled(kInt32, -2.9) == -2);
  CHECK(filled(kUInt8, -1) == 255);
  CHECK(filled(kUInt8, -1.0) == 255);
  CHECK(filled(kUInt8, 300) == 44);
  CHECK(filled(kFloat16, 1e10) == INFINITY);
  CHECK(filled(kFloat32, true) == 1);
  CHECK(std::isnan(filled(kBFloat16, NAN)));
}

// ---- On every device

namespace {

using kit::KernelCase;
using kit::Layout;
using kit::Operand;

DType any_dtype(KernelCase& c) {
  return c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
}

/// Copies `shape` between layouts; the host's copy is the reference, bit by bit.
void check_copy(KernelCase& c, const Shape& shape, DType from, DType to, Layout in_layout,
                Layout out_layout) {
  c.same_dtypes();
  const Operand in = c.input(shape, from, {.layout = in_layout, .low = -300, .high = 300});
  const Operand out = c.output(shape, to, {.layout = out_layout});
  c.run([&](const Stream& stream, const kit::Side& at) { kernels::copy(stream, at(out), at(in)); });
  c.check(out);
}

}  // namespace

TEST_CASE("copies between any layouts and dtypes") {
  kit::for_each_case("copy", 300, [](KernelCase& c) {
    const DType to = any_dtype(c), from = c.coin() ? to : any_dtype(c);
    check_copy(c, c.shape(), from, to, Layout::any, Layout::any);
  });
}

TEST_CASE("copies of long runs") {
  kit::for_each_case("long copy", 60, [](KernelCase& c) {
    const DType to = any_dtype(c), from = c.coin() ? to : any_dtype(c);
    check_copy(c, {c.integer(3000, 20000)}, from, to, Layout::contiguous, Layout::contiguous);
  });
}

TEST_CASE("copies of numbers that no integer type has") {
  kit::for_each_case("copy of large numbers", 30, [](KernelCase& c) {
    c.same_dtypes();
    const DType from = c.pick({kFloat32, kFloat64, kBFloat16});
    const DType to = c.pick({kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
    const Operand in = c.input({300}, from, {.low = -1e20, .high = 1e20});
    const Operand out = c.output({300}, to);
    c.run(
        [&](const Stream& stream, const kit::Side& at) { kernels::copy(stream, at(out), at(in)); });
    c.check(out);
  });
}

TEST_CASE("copies between NCHW and NHWC, and of transposed matrices") {
  kit::for_each_case("transpose", 90, [](KernelCase& c) {
    const DType to = any_dtype(c), from = c.integer(0, 2) > 0 ? to : any_dtype(c);
    const Shape images{c.integer(1, 3), c.pick({2, 3, 4, 17, 40, 64}), c.integer(1, 20),
                       c.integer(1, 20)};
    const Shape matrices{c.integer(1, 2), c.size(300, 1), c.integer(1, 60)};
    if (c.coin()) {
      const bool back = c.coin();
      check_copy(c, images, from, to, back ? Layout::channels_last : Layout::contiguous,
                 back ? Layout::contiguous : Layout::channels_last);
    } else {
      check_copy(c, matrices, from, to, c.pick({Layout::permuted, Layout::gaps}),
                 c.pick({Layout::permuted, Layout::contiguous}));
    }
  });
}

TEST_CASE("fills of any layout and dtype") {
  kit::for_each_case("fill", 120, [](KernelCase& c) {
    const DType dtype = any_dtype(c);
    const Shape shape = c.coin() ? c.shape() : Shape{c.integer(3000, 20000)};
    const Operand out = c.output(shape, dtype, {.layout = Layout::any});
    const Scalar value = dtype == kBool       ? Scalar(c.coin())
                         : is_floating(dtype) ? Scalar(-1.25)
                                              : Scalar(std::int64_t{77});
    c.run(
        [&](const Stream& stream, const kit::Side& at) { kernels::fill(stream, at(out), value); });
    c.check(out, {.rtol = 0});
  });
}
