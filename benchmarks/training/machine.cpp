#include "ferrite/benchmarks/training/machine.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/conv.h"

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

// Independent sums, more than the latency of an instruction times its rate, and few enough for the
// registers. The function is compiled for its instruction set whatever the rest is compiled for.
#define BENCH_FMA_LOOP(NAME, TARGET, BYTES)                                                       \
  TARGET double NAME(std::int64_t repeats) {                                                      \
    typedef float Register __attribute__((vector_size(BYTES)));                                   \
    constexpr int kSums = 12, kLanes = BYTES / 4;                                                 \
    Register sums[kSums] = {}, factor = {}, term = {};                                            \
    for (int i = 0; i < kLanes; ++i) factor[i] = 0.5F, term[i] = 1.0F;                            \
    for (std::int64_t r = 0; r < repeats; ++r) {                                                  \
      _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term; \
      asm volatile("" : : "m"(repeats));                                                          \
    }                                                                                             \
    volatile float sink = 0;                                                                      \
    for (const Register& sum : sums) sink = sink + sum[0];                                        \
    return 2.0 * kSums * kLanes * static_cast<double>(repeats);                                   \
  }

#if defined(__x86_64__)
BENCH_FMA_LOOP(loop_avx512, __attribute__((target("avx512f"))), 64)
BENCH_FMA_LOOP(loop_avx2, __attribute__((target("avx2,fma"))), 32)
#endif
BENCH_FMA_LOOP(loop_of_build, , 16)

double loop(std::int64_t repeats) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return loop_avx512(repeats);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return loop_avx2(repeats);
#endif
  return loop_of_build(repeats);
}

/// The best rate of a few rounds in which all threads do `work`, which says how much it did.
double best_rate(int threads, const std::function<double(int thread)>& work) {
  constexpr int kRounds = 8;
  double best = 0;
  std::vector<double> done(static_cast<std::size_t>(threads));
  Clock::time_point start;
  const auto turn = [&, round = 0]() mutable noexcept {
    const Clock::time_point now = Clock::now();
    double all = 0;
    for (const double d : done) all += d;
    if (round++ > 0)
      best = std::max(best, all / std::chrono::duration<double>(now - start).count());
    start = Clock::now();
  };
  std::barrier meet(threads, turn);
  std::vector<std::jthread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        meet.arrive_and_wait();
        done[static_cast<std::size_t>(t)] = work(t);
      }
      meet.arrive_and_wait();
    });
  team.clear();
  return best;
}

}  // namespace

nlohmann::json machine_limits(int threads) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads)), to(from);
  const double flops = best_rate(threads, [](int) { return loop(1 << 20); });
  const double bytes = best_rate(threads, [&](int thread) {
    auto &source = from[static_cast<std::size_t>(thread)],
         &target = to[static_cast<std::size_t>(thread)];
    if (source.empty()) source.assign(kBytes, 1), target.assign(kBytes, 0);
    std::memcpy(target.data(), source.data(), kBytes);
    return 2.0 * kBytes;
  });
  return {{"flops_per_second", flops}, {"bytes_per_second", bytes}};
}

nlohmann::json network_flops(ferrite::nn::Module& network, const ferrite::Tensor& image) {
  using namespace ferrite;
  double direct = 0, winograd = 0, first = 0, winograd_first = 0;
  const auto count = [&](nn::Module& layer, const Tensor& input, const Tensor& output) {
    const auto* const conv = dynamic_cast<const nn::Conv2d*>(&layer);
    const auto macs = layer.multiply_adds({&input, 1}, {&output, 1});
    if (!macs || *macs == 0) return;
    const bool tiles = conv && conv->weight.size(2) == conv->weight.size(3) &&
                       conv->options().stride == SizeOf<2>(1) &&
                       conv->options().dilation == SizeOf<2>(1);
    const double all = 2 * static_cast<double>(*macs);
    double least = all;
    if (tiles && conv->weight.size(2) == 3) least = all * 36 / 144;
    if (tiles && conv->weight.size(2) == 5 && conv->weight.size(1) >= 32) least = all * 36 / 100;
    if (direct == 0 && conv) first = all, winograd_first = least;
    direct += all, winograd += least;
  };
  std::vector<nn::ModuleHook> hooks;
  for (nn::Module* const layer : network.modules())
    hooks.push_back(layer->register_forward_hook(count));
  const InferenceMode inference;
  const bool trains = network.is_training();
  network.eval();
  network(image);
  network.train(trains);
  for (nn::ModuleHook& hook : hooks) hook.remove();
  return {{"direct", direct},
          {"winograd", winograd},
          {"direct_first", first},
          {"winograd_first", winograd_first}};
}

}  // namespace bench
