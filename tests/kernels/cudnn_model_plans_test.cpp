// cuDNN's plans for every convolution of LeNet-5, ResNet-18 and ResNet-50 on a described GPU. With
// FERRITE_CUDNN_PLANS=docs/cudnn_plans.md the test writes that file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kernels/cudnn_plans.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using kernels::ConvLayout;
using kernels::ConvPass;
using kernels::ConvProblem;
using kernels::cuda::vendor::PlanReport;
using test::ConvSizes;

namespace {

/// A convolution, and how many of it a model has.
struct Layer {
  ConvSizes sizes;
  int lenet, resnet18, resnet50;
};

std::vector<Layer> layers() {
  std::vector<Layer> all;
  const auto add = [&](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t o,
                       std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                       std::array<int, 3> counts) {
    const std::string name = fmt::format("{0}x{0}, {1} to {2} channels, {3} at {4}", kernel, c, o,
                                         stride == 1 ? "stride 1" : "stride 2", size);
    all.push_back(
        {{name, n, c, size, o, kernel, stride, padding}, counts[0], counts[1], counts[2]});
  };
  add(256, 1, 28, 6, 5, 1, 2, {1, 0, 0});
  add(256, 6, 14, 16, 5, 1, 0, {1, 0, 0});
  add(128, 3, 224, 64, 7, 2, 3, {0, 1, 1});
  const int blocks18[] = {2, 2, 2, 2}, blocks50[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64 << stage, size = 56 >> stage, before = stage ? 2 * size : size;
    const std::int64_t stride = stage ? 2 : 1, narrow = stage ? width / 2 : 64;
    const int of18 = blocks18[stage], of50 = blocks50[stage];
    // Two 3x3 in a block of ResNet-18, one between two 1x1 in one of ResNet-50. The first block
    // halves the size, in its first 3x3 and in its shortcut.
    if (stage) {
      add(128, narrow, before, width, 3, 2, 1, {0, 1, 0});
      add(128, narrow, before, width, 1, 2, 0, {0, 1, 0});
      add(128, width, before, width, 3, 2, 1, {0, 0, 1});
    }
    add(128, width, size, width, 3, 1, 1, {0, 2 * of18 - (stage ? 1 : 0), of50 - (stage ? 1 : 0)});
    const std::int64_t in50 = stage ? 4 * narrow : 64;
    add(128, in50, before, width, 1, 1, 0, {0, 0, 1});
    // Of the first stage's shortcut too, which has the sizes of the blocks' last.
    add(128, width, size, 4 * width, 1, 1, 0, {0, 0, of50 + (stage ? 0 : 1)});
    if (stage) add(128, in50, before, 4 * width, 1, stride, 0, {0, 0, 1});
    add(128, 4 * width, size, width, 1, 1, 0, {0, 0, of50 - 1});
  }
  return all;
}

struct Precision {
  const char* name;
  DType dtype;
  ConvLayout layout;
  bool tf32;
};
const Precision kPrecisions[] = {
    {"float32, NCHW", kFloat32, ConvLayout::channels_first, false},
    {"TF32, NCHW", kFloat32, ConvLayout::channels_first, true},
    {"TF32, NHWC", kFloat32, ConvLayout::channels_last, true},
    {"float16, NHWC", kFloat16, ConvLayout::channels_last, false},
    {"bfloat16, NHWC", kBFloat16, ConvLayout::channels_last, false},
};

/// A graph that Ferrite builds.
struct Graph {
  const char* name;
  ConvPass pass;
  bool bias = false, relu = false, stats = false;
};
const Graph kGraphs[] = {
    {"forward", ConvPass::forward},
    {"bias, ReLU", ConvPass::forward, true, true},
    {"statistics", ConvPass::forward, false, false, true},
    {"data", ConvPass::data},
    {"weight", ConvPass::weight},
};

/// Whether models ask for it: statistics are for 16-bit types.
bool is_asked(const Graph& g, const Precision& p) { return !g.stats || itemsize(p.dtype) == 2; }
/// cuDNN has engines for statistics of float16 alone, with channels in packs of 8.
bool needs_plan(const Graph& g, const Precision& p, const Layer& l) {
  return !g.stats || (p.dtype == kFloat16 && l.sizes.c % 8 == 0);
}

PlanReport ask(const Layer& l, const Precision& p, const Graph& g) {
  ConvProblem problem = test::problem(l.sizes, g.pass, p.dtype, p.layout);
  problem.tf32 = p.tf32;
  problem.has_bias = g.bias;
  problem.has_relu = g.relu;
  problem.has_stats = g.stats;
  return kernels::cuda::vendor::report_plans(problem, test::kHopper);
}

std::string table_of(const Precision& p) {
  std::string text =
      fmt::format("\n## {}\n\n| convolution | LeNet-5 | ResNet-18 | ResNet-50 |", p.name);
  std::string rule = "\n| --- | ---: | ---: | ---: |";
  for (const Graph& g : kGraphs)
    if (is_asked(g, p)) text += fmt::format(" {} |", g.name), rule += " ---: |";
  text += rule + "\n";
  for (const Layer& l : layers()) {
    text += fmt::format("| {} |", l.sizes.name);
    for (const int count : {l.lenet, l.resnet18, l.resnet50})
      text += count ? fmt::format(" {} |", count) : " |";
    for (const Graph& g : kGraphs) {
      if (!is_asked(g, p)) continue;
      const PlanReport report = ask(l, p, g);
      INFO(p.name, ": ", l.sizes.name, ", ", g.name, ": ", report.why_not);
      CHECK(report.usable >= (needs_plan(g, p, l) ? 1 : 0));
      text += fmt::format(" {} |", report.usable ? std::to_string(report.offered) : "-");
    }
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the list of convolutions is that of the models") {
  int counts[3] = {};
  std::int64_t weights[3] = {};
  for (const Layer& l : layers()) {
    const int of[] = {l.lenet, l.resnet18, l.resnet50};
    for (int i = 0; i < 3; ++i) {
      counts[i] += of[i];
      weights[i] += of[i] * l.sizes.o * l.sizes.c * l.sizes.kernel * l.sizes.kernel;
    }
  }
  CHECK(counts[0] == 2);
  CHECK(counts[1] == 20);
  CHECK(counts[2] == 53);
  // Of all parameters without those of batch norms, products and biases.
  CHECK(weights[0] == 61'706 - (400 + 1) * 120 - (120 + 1) * 84 - (84 + 1) * 10 - 6 - 16);
  CHECK(weights[1] == 11'689'512 - 9'600 - (512 + 1) * 1000);
  CHECK(weights[2] == 25'557'032 - 53'120 - (2048 + 1) * 1000);
}

TEST_CASE("cuDNN has plans for every convolution of the models, in every precision") {
  if (!test::can_ask_cudnn()) return;
  std::string text = fmt::format(
      "# cuDNN's plans\n\n"
      "How many configurations cuDNN {} offers for each convolution of LeNet-5 (batch 256) and of "
      "ResNet-18 and "
      "ResNet-50\n(batch 128, images of 224) on a GPU of compute capability 9.0, which is "
      "described to it and need "
      "not be there. The columns\nof models say how many of the convolution a model has; the other "
      "columns are the "
      "graphs that Ferrite builds:\nthe convolution alone, with bias and ReLU, with sum and sum of "
      "squares of each "
      "channel for a batch norm behind it, and the\ngradients of its input and weight. \"-\": "
      "cuDNN has none, and "
      "Ferrite does without the fusion.\n\nMade by\n\n"
      "    FERRITE_CUDNN_PLANS=docs/cudnn_plans.md ctest --preset default --tests-regex "
      "kernels/cudnn_model_plans\n",
      cudnn::version());
  for (const Precision& p : kPrecisions) text += table_of(p);
  MESSAGE(text);
  if (const char* const file = std::getenv("FERRITE_CUDNN_PLANS")) {
    std::ofstream(file) << text;
    return;
  }
  // The stored table is of one version of cuDNN.
  std::ifstream in(test::source_dir() + "/docs/cudnn_plans.md");
  const std::string stored{std::istreambuf_iterator<char>(in), {}};
  if (stored.find("cuDNN " + cudnn::version() + " offers") == std::string::npos)
    MESSAGE("docs/cudnn_plans.md is of another version of cuDNN: not compared");
  else
    CHECK(stored == text);
}
