#include <doctest/doctest.h>

#include <cstring>
#include <type_traits>

#include "ferrite/core/error.h"
#include "ferrite/kernels/multi_tensor.h"
#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;
using kit::Side;

namespace {

/// The sum in the order of the inputs, in the accumulation type.
template <class T>
void add_naively(const std::vector<const void*>& in, void* out, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    if constexpr (std::is_integral_v<T>) {
      std::uint64_t sum = 0;
      for (const void* p : in) sum += static_cast<std::uint64_t>(static_cast<const T*>(p)[i]);
      static_cast<T*>(out)[i] = static_cast<T>(sum);
    } else {
      using C = Compute<T>;
      C sum = static_cast<C>(static_cast<const T*>(in[0])[i]);
      for (std::size_t k = 1; k < in.size(); ++k)
        sum += static_cast<C>(static_cast<const T*>(in[k])[i]);
      static_cast<T*>(out)[i] = static_cast<T>(sum);
    }
  }
}

/// Arrays of the given lengths, each the sum of a random number of inputs.
void check_sums(KernelCase& c, DType dtype, const std::vector<std::int64_t>& lengths,
                std::int64_t most, int misalignment) {
  // Of one sign: the bounds are relative.
  const kit::OperandOptions options{.misalignment = misalignment, .low = 1, .high = 90};
  struct Array {
    Operand out;
    std::vector<Operand> in;
  };
  std::vector<Array> arrays;
  for (const std::int64_t n : lengths) {
    Array& array = arrays.emplace_back();
    for (std::int64_t k = c.integer(1, most); k > 0; --k)
      array.in.push_back(c.input(Shape{n}, dtype, options));
    array.out = c.output({n}, dtype, {.misalignment = misalignment});
  }
  const auto addresses = [](const Array& array, const Side& at) {
    std::vector<const void*> in;
    for (const Operand& operand : array.in) in.push_back(at(operand).data);
    return in;
  };
  c.run(
      [&](const Stream& stream, const Side& at) {
        std::vector<kernels::SumPart> parts;
        std::vector<const void*> inputs;
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          const std::vector<const void*> in = addresses(arrays[i], at);
          parts.push_back({at(arrays[i].out).data, lengths[i],
                           static_cast<std::int32_t>(inputs.size()),
                           static_cast<std::int32_t>(in.size())});
          inputs.insert(inputs.end(), in.begin(), in.end());
        }
        kernels::sum_parts(stream, dtype, parts, inputs);
      },
      [&](const Stream&, const Side& at) {
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          const kernels::View out = at(arrays[i].out);
          dispatch_numeric(out.dtype, "test", [&]<class T>() {
            add_naively<T>(addresses(arrays[i], at), out.data, lengths[i]);
          });
        }
      });
  for (const Array& array : arrays) c.check(array.out);
}

}  // namespace

TEST_CASE("many arrays are copied in one pass, whatever their addresses") {
  kit::for_each_case("copy_parts", 30, [](KernelCase& c) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(c.pick({1, 3, 9, 200})));
    for (std::int64_t& n : lengths) n = c.pick({0, 1, 5, 64, 1000});
    lengths[0] = c.pick({3, 4096, 40001});
    const int misalignment = static_cast<int>(c.pick({0, 0, -1}));
    std::vector<Operand> from, to;
    for (const std::int64_t n : lengths) {
      from.push_back(
          c.input(Shape{n}, kUInt8, {.misalignment = misalignment, .low = 0, .high = 255}));
      to.push_back(c.output({n}, kUInt8, {.misalignment = misalignment}));
    }
    c.run(
        [&](const Stream& stream, const Side& at) {
          std::vector<kernels::CopyPart> parts;
          for (std::size_t i = 0; i < lengths.size(); ++i)
            parts.push_back({at(to[i]).data, at(from[i]).data, lengths[i]});
          kernels::copy_parts(stream, parts);
        },
        [&](const Stream&, const Side& at) {
          for (std::size_t i = 0; i < lengths.size(); ++i)
            for (std::int64_t k = 0; k < lengths[i]; ++k)
              at(to[i]).as<std::uint8_t>()[k] = at(from[i]).as<std::uint8_t>()[k];
        });
    for (const Operand& operand : to) c.check(operand);
  });
}

TEST_CASE("many arrays are added up in one pass") {
  kit::for_each_case("sum_parts", 60, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kUInt8});
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(c.pick({1, 3, 80})));
    for (std::int64_t& n : lengths) n = c.pick({0, 1, 7, 64, 333});
    lengths[0] = c.pick({5, 4099, 20000});
    check_sums(c, dtype, lengths, c.pick({1, 4, 9, 16}), static_cast<int>(c.pick({0, 0, -1})));
  });
}

TEST_CASE("sums of as many inputs as there can be devices") {
  kit::for_each_case("sum_parts of many", 4, [](KernelCase& c) {
    check_sums(c, c.pick({kFloat32, kBFloat16, kInt32}), {1000, 3, 17, 64, 1, 2, 9, 30, 5}, 65, 0);
  });
}

TEST_CASE("an array may be its own sum; bool has no sums") {
  for (const Device& device : kit::test_devices()) {
    const Stream stream = current_stream(device);
    kernels::copy_parts(stream, {});
    kernels::sum_parts(stream, kFloat32, {}, {});
    CHECK_THROWS_AS(kernels::sum_parts(stream, kBool, {}, {}), DTypeError);
    const Tensor a = from_vector(std::vector<float>(70, 2), {70}).to(device);
    kernels::sum_parts(stream, kFloat32, {{a.data_ptr(), 70, 0, 2}}, {a.data_ptr(), a.data_ptr()});
    CHECK(a.to_vector<float>() == std::vector<float>(70, 4));
    // In the order of the inputs: 3 is lost when added to 1e8, and only there.
    const auto filled = [&](float value) {
      return from_vector(std::vector<float>(70, value), {70}).to(device);
    };
    const Tensor large = filled(1e8f), three = filled(3), negative = filled(-1e8f);
    kernels::sum_parts(stream, kFloat32, {{a.data_ptr(), 70, 0, 3}},
                       {large.data_ptr(), three.data_ptr(), negative.data_ptr()});
    CHECK(a.to_vector<float>() == std::vector<float>(70, 0));
    kernels::sum_parts(stream, kFloat32, {{a.data_ptr(), 70, 0, 3}},
                       {large.data_ptr(), negative.data_ptr(), three.data_ptr()});
    CHECK(a.to_vector<float>() == std::vector<float>(70, 3));
  }
}
