#include "ferrite/kernels/concat.h"

#include <doctest/doctest.h>

#include <cstring>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;
using kit::Side;

namespace {

/// Parts of uint8 of the given widths, concatenated and compared.
void check_concat(KernelCase& c, std::int64_t rows, const std::vector<std::int64_t>& widths,
                  int misalignment) {
  const kit::OperandOptions options{.misalignment = misalignment, .low = 0, .high = 255};
  std::vector<Operand> parts;
  std::int64_t width = 0;
  for (const std::int64_t w : widths) {
    parts.push_back(c.input(Shape{rows, w}, kUInt8, options));
    width += w;
  }
  const Operand out = c.output({rows, width}, kUInt8, {.misalignment = misalignment});
  c.run(
      [&](const Stream& stream, const Side& at) {
        std::vector<kernels::ConcatPart> list;
        for (std::size_t i = 0; i < parts.size(); ++i)
          list.push_back({at(parts[i]).data, widths[i]});
        kernels::concat(stream, at(out).data, rows, list);
      },
      [&](const Stream&, const Side& at) {
        auto* to = at(out).as<std::uint8_t>();
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::size_t i = 0; i < parts.size(); ++i)
            for (std::int64_t k = 0; k < widths[i]; ++k)
              *to++ = at(parts[i]).as<std::uint8_t>()[r * widths[i] + k];
      });
  c.check(out);
}

}  // namespace

TEST_CASE("rows of parts are concatenated, in words as wide as all allow") {
  kit::for_each_case("concat", 60, [](KernelCase& c) {
    const std::int64_t unit = c.pick({1, 2, 4, 8, 16}), rows = c.pick({1, 1, 2, 7, 100});
    std::vector<std::int64_t> widths;
    for (std::int64_t n = c.integer(1, 5); n > 0; --n)
      widths.push_back(unit * c.size(std::max<std::int64_t>(3, 20000 / unit / rows)));
    check_concat(c, rows, widths, unit == 1 ? -1 : 0);
  });
}

TEST_CASE("more parts are concatenated than one launch takes, columns, and long rows") {
  kit::for_each_case("many parts", 4, [](KernelCase& c) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(c.integer(70, 200)));
    for (std::int64_t& w : widths) w = c.integer(0, 20);
    check_concat(c, c.integer(1, 9), widths, -1);
  });
  kit::for_each_case("columns", 4, [](KernelCase& c) {
    check_concat(c, 3000, std::vector<std::int64_t>(3, c.pick({1, 2, 4, 8})), 0);
  });
  kit::for_each_case("long rows", 2, [](KernelCase& c) {
    check_concat(c, 2, {70000, 32 * c.integer(4000, 5000), 5}, 0);
  });
}
