// cuDNN can be queried for a described device, so our queries can be tested without one.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kernels/cudnn_plans.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using kernels::ConvLayout;
using kernels::ConvPass;
using kernels::ConvProblem;
using kernels::cuda::vendor::PlanReport;
using kernels::cuda::vendor::report_plans;
using test::can_ask_cudnn;
using test::kHopper;
using test::problem;
using Sizes = test::ConvSizes;

namespace {

const Sizes kLeNet1{"LeNet's first", 256, 1, 28, 6, 5, 1, 2};
const Sizes kLeNet2{"LeNet's second", 256, 6, 14, 16, 5};
const Sizes kStem{"ResNet's stem", 32, 3, 224, 64, 7, 2, 3};
const Sizes kBlock{"ResNet's block", 32, 64, 56, 64, 3, 1, 1};
const Sizes kHalving{"ResNet's halving block", 32, 64, 56, 128, 3, 2, 1};
const Sizes kShortcut{"ResNet's shortcut", 32, 64, 56, 128, 1, 2};
const Sizes kDilated{"dilated", 8, 16, 20, 24, 3, 1, 2, 2};
const Sizes kGroups{"groups", 8, 32, 20, 32, 3, 1, 1, 1, 4};

PlanReport ask(const ConvProblem& p) { return report_plans(p, kHopper); }

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::data, ConvPass::weight};
constexpr ConvLayout kLayouts[] = {ConvLayout::channels_first, ConvLayout::channels_last};

}  // namespace

TEST_CASE("cuDNN has plans for every pass, dtype and layout") {
  if (!can_ask_cudnn()) return;
  for (const Sizes& s : {kLeNet1, kLeNet2, kStem, kBlock, kHalving, kShortcut, kDilated, kGroups})
    for (const ConvPass pass : kPasses)
      for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
        for (const ConvLayout layout : kLayouts) {
          ConvProblem p = problem(s, pass, dtype, layout);
          p.tf32 = dtype == kFloat32;
          const PlanReport report = ask(p);
          INFO(s.name, ", pass ", static_cast<int>(pass), ", ", ferrite::name(dtype), ", layout ",
               static_cast<int>(layout), ": ", report.why_not);
          CHECK(report.usable == 1);
        }
}

TEST_CASE("cuDNN has plans with a bias in them, and with ReLU behind it") {
  if (!can_ask_cudnn()) return;
  for (const Sizes& s : {kLeNet1, kLeNet2, kStem, kBlock})
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
      for (const ConvLayout layout : kLayouts)
        for (const bool relu : {false, true}) {
          ConvProblem p = problem(s, ConvPass::forward, dtype, layout);
          p.has_bias = true;
          p.has_relu = relu;
          const PlanReport report = ask(p);
          INFO(s.name, ", ", ferrite::name(dtype), ", layout ", static_cast<int>(layout), ", ReLU ",
               relu, ": ", report.why_not);
          CHECK(report.usable == 1);
        }
}

TEST_CASE("cuDNN has plans with channel sums of the result: float16, channels-last") {
  if (!can_ask_cudnn()) return;
  for (const Sizes& s : {kBlock, kHalving, kShortcut, kStem})
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32})
      for (const ConvLayout layout : kLayouts)
        for (const bool deterministic : {false, true}) {
          ConvProblem p = problem(s, ConvPass::forward, dtype, layout);
          p.has_stats = true;
          p.deterministic = deterministic;
          const PlanReport report = ask(p);
          INFO(s.name, ", ", ferrite::name(dtype), ", layout ", static_cast<int>(layout), ": ",
               report.why_not);
          // Its engines take channels in packs of 8.
          const bool has_engines =
              dtype == kFloat16 && layout == ConvLayout::channels_last && s.c % 8 == 0;
          CHECK(report.usable >= (has_engines ? 1 : 0));
        }
}

TEST_CASE("settings leave fewer plans, and some") {
  if (!can_ask_cudnn()) return;
  for (const ConvPass pass : kPasses)
    for (const ConvLayout layout : kLayouts) {
      CAPTURE(static_cast<int>(pass));
      CAPTURE(static_cast<int>(layout));
      ConvProblem p = problem(kBlock, pass, kFloat32, layout);
      const std::size_t all = ask(p).offered;
      p.tf32 = false;
      const PlanReport exact = ask(p);
      CHECK(exact.usable == 1);
      CHECK(exact.offered < all);
      p.tf32 = true;
      p.deterministic = true;
      const PlanReport same_bits = ask(p);
      CHECK(same_bits.usable == 1);
      CHECK(same_bits.offered <= all);
      if (pass == ConvPass::weight) CHECK(same_bits.offered < all);
    }
  ConvProblem p = problem(kBlock, ConvPass::forward, kFloat32, ConvLayout::channels_first);
  const std::size_t offered = ask(p).offered;
  p.workspace_limit = -1;
  const PlanReport none = report_plans(p, kHopper, offered);
  CHECK(none.usable == 0);
  CHECK(none.why_not.find("workspace") != std::string::npos);
}

TEST_CASE("problems that cuDNN does not support are rejected without an exception") {
  if (!can_ask_cudnn()) return;
  ConvProblem p = problem(kBlock, ConvPass::forward, kFloat16, ConvLayout::channels_last);
  p.out.sizes[2] += 1;
  const PlanReport report = ask(p);
  CHECK(report.usable == 0);
  CHECK(report.why_not.find("CUDNN_STATUS") != std::string::npos);
}

TEST_CASE("cuDNN's version is known if it can be loaded") {
  CHECK(cudnn::version().empty() == !cudnn::is_available());
  if (cudnn::is_available()) CHECK(cudnn::version().starts_with("9."));
  CHECK(cuda::versions().cudnn == (cudnn::is_available() ? cudnn::version() : "not built in"));
}

namespace {

using kernels::cuda::vendor::AttentionProblem;

/// Attention's engines compile their kernels when they are asked, for which cuDNN wants a driver:
/// the toolkit's stub of one is enough until kernels are loaded. Says why not if there is neither.
bool has_driver_or_stub() {
  if (dlopen("libcuda.so.1", RTLD_NOW) ||
      dlopen(test::cuda_driver_stub().c_str(), RTLD_NOW | RTLD_GLOBAL))
    return true;
  MESSAGE("skipped: neither a CUDA driver nor the toolkit's stub of one: ", dlerror());
  return false;
}

/// A GPU with compute capability 8.0.
std::string ampere() {
  std::string json = kHopper;
  const auto replace = [&](const std::string& from, const std::string& to) {
    json.replace(json.find(from), from.size(), to);
  };
  replace("\"deviceVer\": 900", "\"deviceVer\": 800");
  replace("\"multiProcessorCount\": 132", "\"multiProcessorCount\": 108");
  replace("\"maxSharedMemoryPerBlockOptin\": 232448", "\"maxSharedMemoryPerBlockOptin\": 166912");
  return json;
}

struct Attention {
  std::int64_t width = 64, length = 128, groups = 8;
  DType dtype = kFloat16;
  bool causal = false, backward = false;
};

AttentionProblem problem(const Attention& a) {
  AttentionProblem p;
  p.dtype = a.dtype;
  p.causal = a.causal;
  p.backward = a.backward;
  p.workspace_limit = std::int64_t{1} << 30;
  // Heads of a step are next to each other in memory, as layers around attention have them.
  const auto heads = [&](std::int64_t count) -> AttentionProblem::Operand {
    return {{2, count, a.length, a.width},
            {count * a.length * a.width, a.width, count * a.width, 1}};
  };
  p.query = p.out = heads(8);
  p.key = p.value = heads(a.groups);
  if (a.backward) {
    p.grad_query = p.grad_out = p.query;
    p.grad_key = p.grad_value = p.key;
  }
  return p;
}

std::string describe(const Attention& a) {
  return fmt::format("{} of 8 heads, {} columns, length {}, {}{}{}", a.groups, a.width, a.length,
                     ferrite::name(a.dtype), a.causal ? ", causal" : "",
                     a.backward ? ", backward" : ", forward");
}

}  // namespace

TEST_CASE("cuDNN has engines for attention's graphs, forward and backward") {
  if (!can_ask_cudnn() || !has_driver_or_stub()) return;
  for (const auto& [gpu, json] :
       {std::pair<std::string, std::string>{"9.0", kHopper}, {"8.0", ampere()}})
    for (const bool backward : {false, true}) {
      std::vector<Attention> all;
      for (const std::int64_t width : {64, 128})
        for (const std::int64_t length : {128, 4096})
          for (const bool causal : {false, true})
            all.push_back({.width = width,
                           .length = length,
                           .dtype = causal ? kBFloat16 : kFloat16,
                           .causal = causal,
                           .backward = backward});
      all.push_back({.length = 1000, .groups = 2, .causal = true, .backward = backward});
      for (const Attention& a : all) {
        const PlanReport report = report_plans(problem(a), json, 0);
        MESSAGE(gpu, ": ", describe(a), ": ", report.offered, " engines");
        INFO(report.why_not);
        CHECK(report.offered > 0);
      }
    }
}

TEST_CASE("cuDNN makes plans of attention's graphs, up to the driver that loads them") {
  if (!can_ask_cudnn() || !has_driver_or_stub()) return;
  for (const bool causal : {false, true})
    for (const bool backward : {false, true}) {
      const Attention a{.length = 1000, .causal = causal, .backward = backward};
      const PlanReport report = report_plans(problem(a), kHopper);
      INFO(describe(a), ": ", report.why_not);
      CHECK((report.usable == 1 || report.why_not.find("cuLibraryLoadData") != std::string::npos));
    }
}

TEST_CASE("attention that cuDNN does not support is rejected without an exception") {
  if (!can_ask_cudnn() || !has_driver_or_stub()) return;
  AttentionProblem p = problem(Attention{});
  p.out.sizes[2] += 1;
  CHECK(report_plans(p, kHopper).usable == 0);
}
