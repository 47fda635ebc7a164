// A kit for testing kernels, both Ferrite's and your own.
//
// A case draws shapes, layouts, alignments and values from a seed, runs a kernel on the device
// under test, runs it again on the host in float64 (or takes expected values), and compares.
// Outputs start as NaN; every operand is surrounded by guard zones; afterwards inputs, guards and
// the gaps of strided outputs must be unchanged. docs/kernels.md shows a complete test.
//
//   kit::for_each_case("where", 40, [](kit::KernelCase& c) {
//     const DType dtype = c.pick({kFloat32, kFloat16, kInt64});
//     const Shape shape = c.shape();
//     const kit::Operand mask = c.input(shape, kBool), a = c.input(shape, dtype),
//                        b = c.input(shape, dtype), out = c.output(shape, dtype);
//     c.run([&](const Stream& stream, const kit::Side& at) {
//       kernels::where(stream, at(out), at(mask), at(a), at(b));
//     });
//     c.check(out);
//   });
//
// The kit needs no test framework: it throws errors as kit::Failure, which any framework treats as
// a failed test. For a framework's own checks within a case, running_case() describes the case;
// tests/kit/doctest_context.h prints it for doctest.
//
// Environment variables:
//   FERRITE_KIT_SEED=12      start at this seed
//   FERRITE_KIT_CASES=1      run this many cases, overriding the test
//   FERRITE_KIT_DEVICE=cuda  test only on this device
//   FERRITE_KIT_REPEAT=1     run each kernel a second time; its outputs must have the same bits
#pragma once

#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kit {

/// An error found by the kit, with the information to reproduce it.
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The devices under test: the host, and cuda:0 if there is one (emulated or real).
std::vector<Device> test_devices();

/// The memory layout of an operand. `any` draws one: for outputs, one that does not overlap itself.
enum class Layout { any, contiguous, channels_last, permuted, gaps, expanded };

struct OperandOptions {
  Layout layout = Layout::contiguous;
  /// Elements between a 64-byte boundary and the first one; -1 draws one of 0..7, mostly 0.
  int misalignment = -1;
  double low = -2, high = 2;  ///< inputs: values, uniform; integers in [low, high]
  /// Inputs: fraction of NaN, infinities, zeros of either sign and the smallest number, or the
  /// extreme integers.
  double special = 0;
};

/// An operand of a case.
struct Operand {
  int number = -1;
};

/// The current run of the kernel: converts operands to views. One that was never added (Operand())
/// becomes a view without data.
class KernelCase;
class Side {
 public:
  kernels::View operator()(const Operand& operand) const;
  /// The dtype used for `dtype` in this run: float64 for floating types in the reference.
  DType dtype(DType dtype) const;
  bool is_reference() const { return reference_; }

 private:
  friend class KernelCase;
  Side(const KernelCase& owner, bool reference) : owner_(owner), reference_(reference) {}
  const KernelCase& owner_;
  bool reference_;
};

/// |got - expected| <= atol + rtol * |expected|; equal infinities agree, and any two NaN. A result
/// that the output's dtype cannot represent may be infinite.
struct Tolerance {
  double rtol = -1;  ///< below 0: the error of one rounding to the output's dtype
  double atol = 0;
};

class KernelCase {
 public:
  KernelCase(const Device& device, std::uint64_t seed);

  const Device& device() const { return device_; }
  Generator& random() { return random_; }

  // ---- drawing
  std::int64_t integer(std::int64_t low, std::int64_t high);  ///< both included
  bool coin() { return integer(0, 1) == 1; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[integer(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }
  /// One of 0, 1 and the neighbourhoods of 32, 256 and `max`, or anything up to `max`.
  std::int64_t size(std::int64_t max, std::int64_t min = 0);
  /// 0 to `max_dims` sizes whose product is at most `max_numel`.
  Shape shape(int max_dims = 5, std::int64_t max_numel = 3000);

  // ---- operands
  Operand input(const Shape& shape, DType dtype, const OperandOptions& options = {});
  /// With given values, on the host (rounded to `dtype`).
  Operand input(const Tensor& values, DType dtype, const OperandOptions& options = {});
  /// Starts as NaN, or as integers with bytes 0xa5.
  Operand output(const Shape& shape, DType dtype, const OperandOptions& options = {});
  /// Read and written.
  Operand inout(const Shape& shape, DType dtype, const OperandOptions& options = {});
  Operand inout(const Tensor& values, DType dtype, const OperandOptions& options = {});

  /// Runs the reference in the dtypes of the operands, for kernels that guarantee the same bits on
  /// every device. Call it before the first operand.
  void same_dtypes() { same_dtypes_ = true; }

  using Kernel = std::function<void(const Stream&, const Side&)>;
  /// Runs `kernel` on the device under test (on its default stream or another), and on the host
  /// `reference` or, by default, `kernel` again. Then checks guards, gaps and inputs.
  void run(const Kernel& kernel, const Kernel& reference = {});

  /// Fails the case unless `output` agrees with the reference.
  void check(const Operand& output, const Tolerance& tolerance = {});
  /// The same against row-major `expected` values.
  void check_values(const Operand& output, const std::vector<double>& expected,
                    const Tolerance& tolerance = {});
  /// Fails the case with a custom reason. Within for_each_case the case continues, and all its
  /// errors are reported together; elsewhere this throws Failure.
  void fail(const std::string& problem) const;

  /// The operand after the kernel, and after the reference, on the host.
  Tensor result(const Operand& operand) const;
  Tensor expected(const Operand& operand) const;

  /// Device, seed and operands, for failure messages.
  std::string describe() const;

 private:
  friend class Side;
  friend class CaseRun;
  enum class Role { input, output, inout };
  struct Held {
    Role role;
    OperandOptions options;
    Tensor buffer;     // flat, on the device: guard, elements, guard
    Tensor before;     // its contents before the run, on the host
    Tensor tested;     // the operand itself, a view of buffer
    Tensor reference;  // the same values on the host
  };

  Operand add(Role role, const Shape& shape, DType dtype, const Tensor& values,
              OperandOptions options);
  const Held& held(const Operand& operand) const;
  std::string describe(const Held& held) const;
  Tensor values(const Shape& shape, DType dtype, const OperandOptions& options);
  double special_value(DType dtype);
  Strides draw_strides(const Shape& shape, Layout layout);
  void run_tested(const Kernel& kernel);
  void check_repeats(const Kernel& kernel, const std::vector<Tensor>& start);
  void check_surroundings(const Held& held) const;
  void compare(const Operand& output, const std::vector<long double>& expected,
               const std::vector<bool>& expected_unwritten, const Tolerance& tolerance) const;
  DType reference_dtype(DType dtype) const;

  Device device_;
  std::uint64_t seed_;
  Generator random_;
  bool same_dtypes_ = false;
  std::vector<Held> operands_;
  std::vector<std::string>* problems_ = nullptr;  // null: problems are thrown
};

/// Runs `body` for `count` seeds on every device under test. Then, if cases failed, throws Failure
/// with their number, the errors of the first few, and how to run one of them alone. A case fails
/// by errors that the kit finds and by exceptions of `body`.
void for_each_case(const char* name, int count, const std::function<void(KernelCase&)>& body);

/// Name, device, seed and operands of the case that for_each_case is running on this thread; ""
/// outside.
std::string running_case();

}  // namespace ferrite::kit
