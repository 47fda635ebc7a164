// The benchmark: compares the fused op with the same computation by Ferrite's ops, forward and
// backward.
//
//   custom_kernel_bench [DEVICE] [MiB of an operand]
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <functional>
#include <string_view>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "kernels.h"
#include "swiglu.h"

using namespace ferrite;

namespace {

/// Seconds per call. On a CUDA device they are measured by events, which exclude the host's time.
double seconds_of(const Device& device, const std::function<void()>& call, int calls = 20) {
  const Stream stream = current_stream(device);
  call();
  stream.synchronize();
  Event begin, end;
  const auto start = std::chrono::steady_clock::now();
  if (device.is_cuda()) begin.record(stream);
  for (int i = 0; i < calls; ++i) call();
  if (device.is_cuda()) end.record(stream);
  stream.synchronize();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return (device.is_cuda() ? end.elapsed_ms(begin) * 1e-3 : elapsed.count()) / calls;
}

void run(const Device& device, double mib) {
  const Shape shape{static_cast<std::int64_t>(mib * (1 << 20) / 4)};
  const Tensor gate = randn(shape, {.device = device}), value = randn(shape, {.device = device}),
               grad = randn(shape, {.device = device});
  gate.set_requires_grad();
  value.set_requires_grad();
  const auto plain = [](const Tensor& g, const Tensor& v) { return g * sigmoid(g) * v; };
  const auto step = [&](auto&& op) {
    op(gate, value).backward(grad);
    gate.set_grad({});
    value.set_grad({});
  };
  terminal::Table table({{"", terminal::Align::left}, {"microseconds"}, {"GB/s"}});
  const auto add = [&](const char* what, double seconds, double operands) {
    table.add({what, fmt::format("{:.1f}", seconds * 1e6),
               operands > 0 ? fmt::format("{:.1f}", operands * static_cast<double>(grad.nbytes()) /
                                                        seconds * 1e-9)
                            : ""});
  };
  fmt::print("{}, operands of {} MiB\n\n", device.str(), mib);
  no_grad([&] {
    add("fused forward", seconds_of(device, [&] { swiglu::swiglu(gate, value); }), 3);
    add("Ferrite's ops", seconds_of(device, [&] { plain(gate, value); }), 0);
  });
  add("fused forward and backward", seconds_of(device, [&] { step(swiglu::swiglu); }), 8);
  add("Ferrite's ops", seconds_of(device, [&] { step(plain); }), 0);
  table.print();
}

double number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FERRITE_CHECK(error == std::errc() && end == text.data() + text.size() && value > 0, ValueError,
                "MiB", "expected a number above 0, got '{}'", text);
  return value;
}

terminal::Help help() {
  terminal::Help help("custom_kernel_bench [DEVICE] [MiB]",
                      "Compares the fused op with the same computation by Ferrite's ops, forward "
                      "and backward.");
  help.topic("Arguments");
  help.option("DEVICE", "cpu, cuda or cuda:N (default cuda:0 if there is a CUDA device, else cpu)");
  help.option("MiB", "size of an operand (default 64)");
  help.topic("Other options");
  help.option("-h, --help", "print this help");
  help.option("--version", "print the version of Ferrite");
  help.add("Examples:\n  custom_kernel_bench cpu 16");
  return help;
}

}  // namespace

int main(int argc, char** argv) {
  terminal::flush_lines();
  const std::string_view first = argc > 1 ? argv[1] : cuda::is_available() ? "cuda:0" : "cpu";
  try {
    if (first == "-h" || first == "--help") {
      fmt::print("{}", help().str());
    } else if (first == "--version") {
      fmt::print("custom_kernel_bench {}\n", version());
    } else {
      FERRITE_CHECK(argc <= 3, ValueError, "custom_kernel_bench",
                    "expected a device and a size, got {} arguments", argc - 1);
      run(Device(std::string(first)), argc > 2 ? number(argv[2]) : 64);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", terminal::error_line(error.what()));
    return 1;
  }
}
