#include "ferrite/kernels/index.h"

#include <doctest/doctest.h>

#include "ferrite/core/stream.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::Side;

namespace {

Tensor draw_index(KernelCase& c, const Shape& shape, std::int64_t size) {
  Tensor index = empty(shape, {.dtype = kInt64});
  for (std::int64_t i = 0; i < index.numel(); ++i)
    index.data<std::int64_t>()[i] = c.integer(0, size - 1);
  return index;
}

/// A tensor, a dimension, and a valid index shape.
struct Shapes {
  Shape x, index;
  int dim = 0;
};

Shapes draw_shapes(KernelCase& c, std::int64_t max_length) {
  Shapes s;
  do s.x = c.shape(4, 2000);
  while (s.x.size() == 0);
  s.dim = static_cast<int>(c.integer(0, s.x.size() - 1));
  s.index = s.x;
  for (int d = 0; d < s.x.size(); ++d)
    if (d != s.dim && c.coin()) s.index[d] = c.integer(0, s.x[d]);
  s.index[s.dim] = s.x[s.dim] == 0 ? 0 : c.size(max_length);
  return s;
}

/// Few lanes and a long dimension, or vice versa, or both of some length.
Shapes draw_long_shapes(KernelCase& c) {
  const std::int64_t length = c.pick({33, 700, 1024, 1025, 5000}),
                     size = c.pick({1, 3, 300, 70000});
  const std::int64_t lanes = c.pick({1, 2, 3});
  switch (c.integer(0, 2)) {
    case 0:
      return {{size, lanes}, {length, lanes}, 0};
    case 1:
      return {{lanes, size}, {lanes, length}, 1};
    default:
      return {{size}, {length}, 0};
  }
}

constexpr std::initializer_list<DType> kAll = {kFloat32, kFloat16, kBFloat16, kFloat64,
                                               kInt64,   kInt32,   kUInt8,    kBool};
constexpr std::initializer_list<DType> kAddable = {kFloat32, kFloat32, kFloat64,
                                                   kInt64,   kInt32,   kUInt8};

}  // namespace

TEST_CASE("gather reads elements of any layout and dtype") {
  kit::for_each_case("gather", 60, [](KernelCase& c) {
    const DType dtype = c.pick(kAll);
    const Shapes s = draw_shapes(c, 40);
    const Operand x = c.input(s.x, dtype, {.layout = Layout::any});
    const Operand index =
        c.input(draw_index(c, s.index, s.x[s.dim]), kInt64, {.layout = Layout::any});
    const Operand out = c.output(s.index, dtype, {.layout = Layout::any});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::gather(stream, "gather", at(out), at(x), at(index), s.dim);
    });
    c.check(out, {.rtol = 0});
  });
}

TEST_CASE("index_select moves slices, in words as wide as they allow") {
  kit::for_each_case("index_select", 80, [](KernelCase& c) {
    const DType dtype = c.pick(kAll);
    Shapes s = draw_shapes(c, 40);
    // Widths that are multiples of packs, and some that only smaller words divide.
    if (c.coin()) s = {{c.integer(1, 50), c.pick({2, 3, 4, 6, 8, 12, 16, 64})}, {}, 0};
    const bool dense = c.coin();
    const kit::OperandOptions options{.layout = dense ? Layout::contiguous : Layout::any};
    const std::int64_t count = s.x[s.dim] == 0 ? 0 : c.size(60);
    Shape shape = s.x;
    shape[s.dim] = count;
    const Operand x = c.input(s.x, dtype, options), out = c.output(shape, dtype, options);
    const Operand index =
        c.input(draw_index(c, {count}, s.x[s.dim]), kInt64, {.layout = Layout::any});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::index_select(stream, "index_select", at(out), at(x), at(index), s.dim);
    });
    c.check(out, {.rtol = 0});
  });
}

namespace {

/// Into a tensor of values, so that elements that are not written keep theirs.
template <class Kernel>
void check_scatter(KernelCase& c, const Shapes& s, DType dtype, Kernel&& kernel) {
  c.same_dtypes();  // the order of sums is specified, and with it every bit
  const Operand out = c.inout(s.x, dtype, {.layout = Layout::any});
  const Operand index =
      c.input(draw_index(c, s.index, s.x[s.dim]), kInt64, {.layout = Layout::any});
  const Operand source = c.input(s.index, dtype, {.layout = Layout::any});
  c.run([&](const Stream& stream, const Side& at) {
    kernel(stream, at(out), at(index), at(source), s.dim);
  });
  c.check(out);
}

const auto scatter = [](const Stream& stream, const kernels::View& out, const kernels::View& index,
                        const kernels::View& source,
                        int dim) { kernels::scatter(stream, "scatter", out, index, source, dim); };
const auto scatter_add = [](const Stream& stream, const kernels::View& out,
                            const kernels::View& index, const kernels::View& source, int dim) {
  kernels::scatter_add(stream, "scatter_add", out, index, source, dim);
};

}  // namespace

TEST_CASE("scatter: the last of equal indices wins, in every layout and dtype") {
  kit::for_each_case("scatter", 60, [](KernelCase& c) {
    check_scatter(c, draw_shapes(c, 40), c.pick(kAll), scatter);
  });
  kit::for_each_case("long scatter", 24, [](KernelCase& c) {
    check_scatter(c, draw_long_shapes(c), c.pick(kAll), scatter);
  });
}

TEST_CASE("scatter_add: sums in the order of the source, to the last bit") {
  kit::for_each_case("scatter_add", 60, [](KernelCase& c) {
    check_scatter(c, draw_shapes(c, 40), c.pick(kAddable), scatter_add);
  });
  kit::for_each_case("long scatter_add", 24, [](KernelCase& c) {
    check_scatter(c, draw_long_shapes(c), c.pick(kAddable), scatter_add);
  });
}

TEST_CASE("scatters of many lanes") {
  kit::for_each_case("many lanes", 2, [](KernelCase& c) {
    const Shapes s{{3, 16400}, {40, 16400}, 0};
    c.coin() ? check_scatter(c, s, kFloat32, scatter) : check_scatter(c, s, kFloat32, scatter_add);
  });
}

TEST_CASE("index_add: slices in the order of the index, to the last bit") {
  kit::for_each_case("index_add", 100, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = c.pick(kAddable);
    const DType source_dtype = dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16}) : dtype;
    Shapes s = draw_shapes(c, 40);
    std::int64_t count = s.x[s.dim] == 0 ? 0 : c.size(60);
    switch (c.integer(0, 3)) {
      case 0:  // slices of packs
        s = {{c.pick({1, 7, 300}), 4 * c.integer(1, 20)}, {}, 0};
        count = c.size(60);
        break;
      case 1:  // more indices than are compared with each other
        s = {{c.pick({2, 300, 70000}), c.pick({1, 4})}, {}, 0};
        count = c.integer(1000, 5000);
    }
    const bool dense = c.coin();
    const kit::OperandOptions options{.layout = dense ? Layout::contiguous : Layout::any};
    Shape shape = s.x;
    shape[s.dim] = count;
    const Operand out = c.inout(s.x, dtype, options);
    const Operand source = c.input(shape, source_dtype, options);
    const Operand index =
        c.input(draw_index(c, {count}, s.x[s.dim]), kInt64, {.layout = Layout::any});
    // Powers of two: products are exact, whether fused with the sum or not.
    const Scalar alpha = is_floating(dtype) ? c.pick<Scalar>({1, -0.5}) : c.pick<Scalar>({1, -3});
    c.run([&](const Stream& stream, const Side& at) {
      kernels::index_add(stream, "index_add", at(out), at(index), at(source), s.dim, alpha);
    });
    c.check(out);
  });
}

namespace {

/// An index of `shape` with one value out of range, at `position`; the rest is 1.
Tensor bad_index(const Shape& shape, const Shape& position, std::int64_t value,
                 const Device& device) {
  const Tensor index = ones(shape, {.dtype = kInt64});
  std::int64_t at = 0;
  for (int d = 0; d < shape.size(); ++d) at = at * shape[d] + position[d];
  index.data<std::int64_t>()[at] = value;
  return index.to(device);
}

template <class Run>
void check_reported(const Device& device, const char* message, Run&& run) {
  const Stream stream = current_stream(device);
  CHECK(test::message_of<IndexError>([&] {
          run(stream);
          stream.synchronize();
        }) == message);
  stream.synchronize();  // reported once
}

}  // namespace

TEST_CASE("an index out of range is reported with its position, and skipped") {
  for (const Device& device : kit::test_devices()) {
    const Tensor x = ones({4, 50}).to(device), wide = ones({4, 2000}).to(device);
    const Tensor few = bad_index({4, 9}, {2, 7}, 50, device),
                 many = bad_index({4, 2000}, {3, 1500}, -1, device),
                 slices = bad_index({9}, {5}, 4, device);
    const Tensor out = zeros({4, 9}).to(device), rows = zeros({9, 50}).to(device);
    const char* at_few =
        "[op] index 50 at position [2, 7] is out of range for a dimension of size 50";
    const char* at_many =
        "[op] index -1 at position [3, 1500] is out of range for a dimension of size 50";
    const char* at_slice = "[op] index 4 at position [5] is out of range for a dimension of size 4";
    check_reported(device, at_few,
                   [&](const Stream& s) { kernels::gather(s, "op", out, x, few, 1); });
    check_reported(device, at_slice,
                   [&](const Stream& s) { kernels::index_select(s, "op", rows, x, slices, 0); });
    check_reported(device, at_few,
                   [&](const Stream& s) { kernels::scatter(s, "op", x, few, out, 1); });
    check_reported(device, at_many,
                   [&](const Stream& s) { kernels::scatter(s, "op", x, many, wide, 1); });
    check_reported(device, at_few,
                   [&](const Stream& s) { kernels::scatter_add(s, "op", x, few, out, 1); });
    check_reported(device, at_many,
                   [&](const Stream& s) { kernels::scatter_add(s, "op", x, many, wide, 1); });
    check_reported(device, at_slice,
                   [&](const Stream& s) { kernels::index_add(s, "op", x, slices, rows, 0, 1); });
    const Tensor n = ones({4, 50}, {.dtype = kInt64}).to(device),
                 more = ones({9, 50}, {.dtype = kInt64}).to(device);
    check_reported(device, at_slice,
                   [&](const Stream& s) { kernels::index_add(s, "op", n, slices, more, 0, 1); });
    // An index with gaps, transposed in memory.
    const Tensor turned = bad_index({9, 8}, {7, 4}, 50, device).transpose(0, 1).slice(0, 0, 8, 2);
    check_reported(device,
                   "[op] index 50 at position [2, 7] is out of range for a dimension of size 50",
                   [&](const Stream& s) { kernels::gather(s, "op", out, x, turned, 1); });
  }
}
