// Every op of the table on cuda:0, emulated or real, beside the host: values, gradients, dtypes,
// layouts, odd shapes and errors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <climits>
#include <regex>
#include <set>
#include <string>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const char* const kCuda = "cuda:0";

/// The same values, laid out otherwise.
enum class Lie { contiguous, gaps, transposed, channels_last };
constexpr const char* kLieNames[] = {"contiguous", "with gaps", "transposed", "channels-last"};

Tensor lay_out(const Tensor& t, Lie lie) {
  NoGradGuard guard;
  if (t.dim() == 0 || t.numel() == 0) return t;
  switch (lie) {
    case Lie::gaps: {
      Shape wide = t.shape();
      wide[t.dim() - 1] *= 2;
      const Tensor view =
          empty(wide, {.dtype = t.dtype(), .device = t.device()}).slice(-1, 0, INT64_MAX, 2);
      return view.copy_(t).detach();
    }
    case Lie::transposed:
      return t.transpose(0, -1).clone(kContiguous).transpose(0, -1).detach();
    case Lie::channels_last:
      return t.dim() == 4 ? t.contiguous(kChannelsLast) : t;
    case Lie::contiguous:
      break;
  }
  return t;
}

/// Ops whose message it would be no news to repeat.
struct Findings {
  std::set<std::string> missing;  // ops that say they have no kernel for cuda:0

  void check() const {
    std::string list;
    for (const std::string& name : missing) list += (list.empty() ? "" : ", ") + name;
    CHECK_MESSAGE(missing.empty(), "without a CUDA kernel: " << list);
  }
};

/// A message of cuda:0 in the words of the host. Of several bad values the device may name any one.
std::string as_on_host(std::string text) {
  for (std::size_t at; (at = text.find(kCuda)) != std::string::npos;) text.replace(at, 6, "cpu");
  static const std::regex place(R"(-?\d+ at position \[[^\]]*\])");
  return std::regex_replace(text, place, "one value");
}
bool is_missing(const std::string& result) {
  return result.find("has no kernel for") != std::string::npos;
}

/// Runs the op on the host and on the device, whose copies of `inputs` are laid out alike, and
/// compares what comes of it: results, gradients and errors.
void check_op(const Op& op, const std::vector<Tensor>& inputs, Lie lie, const std::string& what,
              Findings& findings) {
  const auto use = [&](const Device& device, OpRun& run) {
    return outcome([&] {
      std::vector<Tensor> mine;
      for (const Tensor& t : inputs) mine.push_back(lay_out(t.detach().to(device), lie));
      run = run_op(op, as_leaves(op, std::move(mine)), device);
      synchronize(device);
    });
  };
  OpRun host, device;
  const std::string on_host = use({}, host), on_device = use(Device(kCuda), device);
  if (is_missing(on_device)) {
    findings.missing.insert(op.name);
    return;
  }
  // Of several bad indices either may name any.
  if (!is_error(on_host, "IndexError", op.name) || !is_error(on_device, "IndexError", op.name))
    CHECK_MESSAGE(as_on_host(on_device) == as_on_host(on_host), what);
  if (!on_host.empty() || !on_device.empty()) return;
  const std::string text = compare(device, host, 1, op.terms);
  CHECK_MESSAGE(text.empty(), what << text);
}

void check_all(DType dtype, Lie lie = Lie::contiguous) {
  if (!has_cuda()) return;
  const Poisoned poison{Device(kCuda)};
  Findings findings;
  for (const Op& op : op_table())
    if (takes(op.takes, dtype))
      check_op(
          op, make_inputs(op, dtype, {}), lie,
          fmt::format("{} of {}, {}", op.name, dtype, kLieNames[static_cast<std::size_t>(lie)]),
          findings);
  findings.check();
}

}  // namespace

TEST_CASE("every op on a CUDA device: float32") { check_all(kFloat32); }
TEST_CASE("every op on a CUDA device: float64") { check_all(kFloat64); }
TEST_CASE("every op on a CUDA device: float16") { check_all(kFloat16); }
TEST_CASE("every op on a CUDA device: bfloat16") { check_all(kBFloat16); }
TEST_CASE("every op on a CUDA device: int64") { check_all(kInt64); }
TEST_CASE("every op on a CUDA device: int32") { check_all(kInt32); }
TEST_CASE("every op on a CUDA device: int16") { check_all(kInt16); }
TEST_CASE("every op on a CUDA device: int8") { check_all(kInt8); }
TEST_CASE("every op on a CUDA device: uint8") { check_all(kUInt8); }
TEST_CASE("every op on a CUDA device: bool") { check_all(kBool); }
TEST_CASE("every op on a CUDA device: inputs with gaps") { check_all(kFloat32, Lie::gaps); }
TEST_CASE("every op on a CUDA device: transposed inputs") { check_all(kFloat32, Lie::transposed); }
TEST_CASE("every op on a CUDA device: channels-last inputs") {
  check_all(kFloat32, Lie::channels_last);
  check_all(kFloat16, Lie::channels_last);
}

TEST_CASE("no op waits for its CUDA device, but for those that say so") {
  if (!has_cuda()) return;
  const Device device(kCuda);
  for (const Op& op : op_table()) {
    if (op.on_host) continue;
    CAPTURE(op.name);
    const std::vector<Tensor> leaves = make_leaves(op, kFloat32, device);
    std::vector<Tensor> weights;
    const std::string ready = outcome([&] {
      for (const Tensor& out : run_op(op, make_leaves(op, kFloat32, {}), {}).outputs)
        weights.push_back(make_weight(out, device));
      // What is made once, and may wait, is made now.
      run_op(op, make_leaves(op, kFloat32, device), device);
      synchronize(device);
    });
    if (!ready.empty()) continue;  // another test tells
    TimedGate gate(current_stream(device));
    run_op(op, leaves, device, weights);
    CHECK(gate.open());
    CHECK(!gate.error());
  }
}

TEST_CASE("a CUDA device takes and refuses what the host does") {
  if (!has_cuda()) return;
  const std::vector<Shape> shapes{{},
                                  {0},
                                  {1},
                                  {7},
                                  {2, 0},
                                  {1, 1},
                                  {5, 7},
                                  {0, 4, 5},
                                  {2, 3, 4},
                                  {2, 0, 5, 6},
                                  {0, 4, 5, 6},
                                  {1, 1, 1, 1},
                                  {2, 1, 2, 1, 2, 1, 2, 1}};
  Findings findings;
  for (const Op& op : op_table())
    for (const Shape& shape : shapes)
      for (std::size_t i = 0; i < op.args.size(); ++i) {
        std::vector<Tensor> inputs = make_inputs(op, kFloat32, {});
        Arg arg = op.args[i];
        arg.shape = shape;
        inputs[i] = make_input(arg, kFloat32, {}, static_cast<int>(i));
        check_op(op, inputs, Lie::contiguous, fmt::format("{}, input {} of {}", op.name, i, shape),
                 findings);
      }
  findings.check();
}

TEST_CASE("indices out of range on a CUDA device are the host's errors, when it is waited for") {
  if (!has_cuda()) return;
  const Device device(kCuda);
  for (const Op& op : op_table()) {
    for (std::size_t i = 0; i < op.args.size(); ++i) {
      if (op.args[i].fill != Fill::index) continue;
      for (std::int64_t bad : {op.args[i].limit, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
        // Of these, it counts from the end.
        if (bad == -1 &&
            (op.name.starts_with("index_put") || op.name == "index" || op.name == "take"))
          continue;
        std::vector<Tensor> inputs = make_inputs(op, kFloat32, {});
        inputs[i].select(0, 1).fill_(bad);
        const std::string on_host = outcome([&] { op.call(inputs); });
        for (Tensor& t : inputs) t = t.to(device);
        std::vector<Tensor> results;
        const std::string queued = outcome([&] { results = op.call(inputs, device); });
        if (is_missing(queued)) continue;  // another test tells
        CHECK_MESSAGE(queued.empty(), op.name << ": " << queued);
        const std::string late = outcome([&] { synchronize(device); });
        CHECK_MESSAGE(is_error(late, "IndexError", op.name), op.name << ": " << late);
        // Which of several bad elements is named is not said.
        CHECK_MESSAGE(late.find(std::to_string(bad)) != std::string::npos,
                      op.name << ": " << late << ", on the host " << on_host);
        CHECK(outcome([&] { synchronize(device); }).empty());
      }
    }
  }
}
