// Times the convolutions of LeNet-5, of d2l's LeNet and of ResNet-18: forward, and the gradients
// with respect to data and weights.
//
//   bench_ops [--threads 1,2] [--algorithm automatic] [--only text] [--shape 32,64,28,64]
//             [--taps 3,1,1] [--dtype float32] [--seconds 0.25] [--processor-time]
//
// Prints medians in milliseconds and billions of operations per second; with FERRITE_CONV_PLAN=1
// the plans, too. conv_bench.py in this folder times PyTorch on the same layers.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "ferrite/benchmarks/program.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;

namespace {

struct Layer {
  const char* name;
  std::int64_t batch, in, size, out, kernel, stride, padding;
};

constexpr Layer kLayers[] = {
    {"lenet5.conv1", 256, 1, 28, 6, 5, 1, 2},     {"lenet5.conv2", 256, 6, 14, 16, 5, 1, 0},
    {"d2l.conv1", 256, 1, 28, 20, 3, 1, 0},       {"d2l.conv2", 256, 20, 13, 50, 5, 1, 0},
    {"resnet.conv1", 32, 1, 28, 64, 3, 1, 1},     {"resnet.64", 32, 64, 28, 64, 3, 1, 1},
    {"resnet.64-128", 32, 64, 28, 128, 3, 2, 1},  {"resnet.down", 32, 64, 28, 128, 1, 2, 0},
    {"resnet.128", 32, 128, 14, 128, 3, 1, 1},    {"resnet.256", 32, 256, 7, 256, 3, 1, 1},
    {"resnet.512", 32, 512, 4, 512, 3, 1, 1},     {"resnet.128-256", 32, 128, 14, 256, 3, 2, 1},
    {"resnet.256-512", 32, 256, 7, 512, 3, 2, 1}, {"resnet.down256", 32, 128, 14, 256, 1, 2, 0},
    {"resnet.down512", 32, 256, 7, 512, 1, 2, 0}, {"resnet.stem", 8, 3, 224, 64, 7, 2, 3},
    {"bottleneck.in", 8, 256, 56, 64, 1, 1, 0},   {"bottleneck.out", 8, 64, 56, 256, 1, 1, 0},
};

bool processor_time = false;
double budget_seconds = 0.25;
DType operand_dtype = kFloat32;

double now() {
  timespec t;
  clock_gettime(processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The median time of a call in seconds, over calls that take about budget_seconds together.
template <class F>
double median_seconds(F&& f) {
  std::vector<double> times;
  f();
  double total = 0;
  while (times.size() < 5 || total < budget_seconds) {
    const double start = now();
    f();
    times.push_back(now() - start);
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void measure(const Layer& l, MemoryFormat format, int threads) {
  set_num_threads(threads);
  const std::int64_t size = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
  const auto filled = [](const Shape& shape, MemoryFormat f) {
    return randn(shape, {.memory_format = f}).to(operand_dtype);
  };
  // With one input channel both formats are the same.
  const Tensor x = filled({l.batch, l.in, l.size, l.size}, format);
  const Tensor w = filled({l.out, l.in, l.kernel, l.kernel}, format),
               b = randn({l.out}).to(operand_dtype);
  const Tensor y = filled({l.batch, l.out, size, size}, format);
  const Tensor gx = empty_like(x), gw = empty_like(w), gb = empty_like(b);
  const kernels::ConvParams p{.stride = {l.stride, l.stride}, .padding = {l.padding, l.padding}};
  const Stream stream;
  const double work = 2e-9 * static_cast<double>(y.numel() * l.in * l.kernel * l.kernel);
  const double seconds[] = {
      median_seconds([&] { kernels::conv2d(stream, y, x, w, b, p); }),
      l.in == 1 ? 0 : median_seconds([&] { kernels::conv2d_data(stream, gx, y, w, {}, p); }),
      median_seconds([&] { kernels::conv2d_weight(stream, gw, gb, x, y, p); })};
  fmt::print("{:<14} {:>3} x {:>3} x {:>2} -> {:>3} {} {}", l.name, l.batch, l.in, l.size, l.out,
             format == kChannelsLast ? "nhwc" : "nchw", threads);
  for (const double s : seconds)
    fmt::print("  {:>8.3f} ms {:>6.1f}", s * 1e3, s > 0 ? work / s : 0.0);
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the convolutions of LeNet and ResNet-18");
  std::vector<int> threads{1, 2};
  std::vector<std::int64_t> shapes;
  std::vector<std::int64_t> taps{3, 1, 1};
  std::string algorithm = "automatic", type = "float32", only;
  app.option_defaults()->group("Convolutions")->always_capture_default();
  app.add_option("--threads", threads, "CPU threads")->delimiter(',');
  app.add_option("--algorithm", algorithm, "of the convolutions")
      ->check(CLI::IsMember({"automatic", "direct", "winograd_2x2", "winograd_4x4"}));
  app.add_option("--only", only, "layers whose names contain this");
  app.add_option("--shape", shapes,
                 "batch, channels, side and output channels of convolutions, instead of the "
                 "networks'")
      ->delimiter(',');
  app.add_option("--taps", taps, "of --shape: kernel, stride and padding")
      ->delimiter(',')
      ->expected(3);
  app.add_option("--dtype", type, "of the operands")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  app.option_defaults()->group("Measurement");
  app.add_option("--seconds", budget_seconds, "approximate duration of a measurement");
  app.add_flag("--processor-time", processor_time,
               "measure processor time instead of wall time: for one thread on a busy machine");
  return bench::run(app, argc, argv, [&] {
    kernels::set_conv_algorithm(algorithm == "direct"         ? kernels::ConvAlgorithm::direct
                                : algorithm == "winograd_2x2" ? kernels::ConvAlgorithm::winograd_2x2
                                : algorithm == "winograd_4x4" ? kernels::ConvAlgorithm::winograd_4x4
                                                              : kernels::ConvAlgorithm::automatic);
    operand_dtype = type == "float16" ? kFloat16 : type == "bfloat16" ? kBFloat16 : kFloat32;
    fmt::print(
        "layer          batch, channels, side    format threads  forward ms, GFLOP/s  data  "
        "weights\n");
    std::vector<Layer> layers;
    for (std::size_t i = 0; i + 4 <= shapes.size(); i += 4)
      layers.push_back({"shape", shapes[i], shapes[i + 1], shapes[i + 2], shapes[i + 3], taps[0],
                        taps[1], taps[2]});
    if (layers.empty()) layers.assign(std::begin(kLayers), std::end(kLayers));
    for (const Layer& l : layers)
      if (std::string(l.name).find(only) != std::string::npos)
        for (const int count : threads)
          for (const MemoryFormat format : {kContiguous, kChannelsLast}) measure(l, format, count);
  });
}
