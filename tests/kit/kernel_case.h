// A kit to test kernels with: one's own as well as Ferrite's.
//
// A case draws shapes, layouts, alignments and values from a seed, runs a kernel on the device
// under test, runs it again on the host in float64 (or takes expected values), and compares.
// Outputs start as NaN; every operand lies between guard zones; afterwards inputs, guards and the
// gaps of strided outputs must be as they were. docs/kernel-testing.md shows a whole test.
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
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/generator.h"
#include "core/tensor.h"
#include "kernels/view.h"

namespace ferrite::kit {

/// The devices under test: the host, and cuda:0 where there is one (emulated or real).
std::vector<Device> test_devices();

/// How an operand lies in memory. `any` draws one.
enum class Layout { any, contiguous, channels_last, permuted, gaps, expanded };

struct OperandOptions {
  Layout layout = Layout::contiguous;
  /// Elements between a 256-byte boundary and the first one; -1 draws from 0..7.
  int misalignment = -1;
  double low = -2, high = 2;  ///< inputs: values, uniform; integers in [low, high]
};

/// An operand of a case.
struct Operand {
  int number = -1;
};

/// Where the kernel runs just now: turns operands into views.
class KernelCase;
class Side {
 public:
  kernels::View operator()(const Operand& operand) const;
  /// The dtype that `dtype` has here: float64 for floating types in the reference.
  DType dtype(DType dtype) const;
  bool is_reference() const { return reference_; }

 private:
  friend class KernelCase;
  Side(const KernelCase& owner, bool reference) : owner_(owner), reference_(reference) {}
  const KernelCase& owner_;
  bool reference_;
};

struct Tolerance {
  double rtol = -1;  ///< below 0: what rounding once to the output's dtype costs
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
  /// Starts as NaN, or all bits set.
  Operand output(const Shape& shape, DType dtype, const OperandOptions& options = {});
  /// Read and written.
  Operand inout(const Shape& shape, DType dtype, const OperandOptions& options = {});
  Operand inout(const Tensor& values, DType dtype, const OperandOptions& options = {});

  /// The reference runs in the dtypes of the operands, for kernels that promise the same bits on
  /// every device. Before the first operand.
  void same_dtypes() { same_dtypes_ = true; }

  using Kernel = std::function<void(const Stream&, const Side&)>;
  /// Runs `kernel` on the device under test and, unless `reference` is given, on the host as the
  /// reference; else that. Then checks guards, gaps and inputs.
  void run(const Kernel& kernel, const Kernel& reference = {});

  /// Fails the test unless `output` agrees with the reference.
  void check(const Operand& output, const Tolerance& tolerance = {});
  /// The same against row-major `expected` values.
  void check_values(const Operand& output, const std::vector<double>& expected,
                    const Tolerance& tolerance = {});

  /// What the kernel left in an operand, and what the reference did, on the host.
  Tensor result(const Operand& operand) const;
  Tensor expected(const Operand& operand) const;

  /// Device, seed and operands, for failure messages.
  std::string describe() const;

 private:
  friend class Side;
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
  Tensor values(const Shape& shape, DType dtype, const OperandOptions& options);
  Strides draw_strides(const Shape& shape, Layout layout);
  void check_surroundings(const Held& held, int number) const;
  DType reference_dtype(DType dtype) const;

  Device device_;
  std::uint64_t seed_;
  Generator random_;
  bool same_dtypes_ = false;
  std::vector<Held> operands_;
};

/// Runs `body` for `count` seeds on every device under test. FERRITE_KIT_SEED starts elsewhere;
/// a failure names seed and device.
void for_each_case(const char* name, int count, const std::function<void(KernelCase&)>& body);

}  // namespace ferrite::kit
