#include "ferrite/parallel/pipeline/balance.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/concat.h"

namespace ferrite::parallel {

namespace {

using Clock = std::chrono::steady_clock;

/// Restores the state of the generators that layers drew from.
class SameRandomNumbers {
 public:
  explicit SameRandomNumbers(const Device& device)
      : device_(device),
        of_device_(default_generator(device).state()),
        of_host_(default_generator(Device()).state()) {}
  ~SameRandomNumbers() {
    default_generator(Device()).set_state(of_host_);
    default_generator(device_).set_state(of_device_);
  }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  const Device device_;
  const PhiloxState of_device_, of_host_;
};

std::vector<std::unique_ptr<nn::Module>> copies_of(nn::Sequential& model, const Device& device) {
  std::vector<std::unique_ptr<nn::Module>> copies;
  for (nn::Module* layer : model.children()) {
    copies.push_back(layer->clone());
    copies.back()->to(device);
  }
  return copies;
}

/// As the input of a stage: off the tape of the previous layer.
Tensor as_input(const Tensor& x) {
  const Tensor input = x.detach();
  if (is_floating(input.dtype())) input.set_requires_grad();
  return input;
}

void run_backward(const Tensor& y) {
  if (!y.requires_grad()) return;
  const Tensor gradient = y.detach();
  autograd::backward({&y, 1}, {&gradient, 1});
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The total cost of layers [0, i) at index i.
std::vector<double> running_sums(std::span<const double> costs) {
  std::vector<double> sums{0};
  for (const double cost : costs) {
    FERRITE_CHECK(cost >= 0, ValueError, "balance", "expected costs of 0 or more, got {}", cost);
    sums.push_back(sums.back() + cost);
  }
  return sums;
}

/// Finds cuts that minimize `combine` over the stages' costs, none above `limit`: best[s][i] is the
/// minimum for layers [0, i) in s stages.
template <class Combine>
std::pair<double, std::vector<std::int64_t>> best_cuts(std::size_t stages,
                                                       const std::vector<double>& sums,
                                                       double limit, Combine combine) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::size_t layers = sums.size() - 1;
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> cut(stages + 1, std::vector<std::size_t>(layers + 1));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s)
    for (std::size_t i = s; i <= layers; ++i)
      for (std::size_t j = s - 1; j < i; ++j) {
        const double cost = sums[i] - sums[j];
        if (cost > limit) continue;
        const double whole = combine(best[s - 1][j], cost);
        if (whole >= best[s][i]) continue;
        best[s][i] = whole;
        cut[s][i] = j;
      }
  std::vector<std::int64_t> parts(stages);
  for (std::size_t s = stages, i = layers; s > 0; i = cut[s--][i])
    parts[s - 1] = static_cast<std::int64_t>(i - cut[s][i]);
  return {best[stages][layers], parts};
}

}  // namespace

std::vector<std::int64_t> balance_by_cost(int stages, std::span<const double> costs) {
  FERRITE_CHECK(stages > 0 && static_cast<std::size_t>(stages) <= costs.size(), ValueError,
                "balance", "{} layers cannot be cut into {} stages", costs.size(), stages);
  const std::vector<double> sums = running_sums(costs);
  const auto count = static_cast<std::size_t>(stages);
  const double least =
      best_cuts(count, sums, std::numeric_limits<double>::max(), [](double a, double b) {
        return std::max(a, b);
      }).first;
  // Allows for different rounding of the sums.
  return best_cuts(count, sums, least * (1 + 1e-9), [](double a, double b) { return a + b * b; })
      .second;
}

std::vector<double> layer_times(nn::Sequential& model, const Tensor& sample,
                                const BalanceByTimeOptions& options) {
  const EnableGradGuard recording;
  const SameRandomNumbers same(options.device);
  const auto layers = copies_of(model, options.device);
  std::vector<std::vector<double>> times(layers.size());
  const Tensor first = sample.to(options.device);
  const auto until = Clock::now() + std::chrono::duration<double>(options.seconds);
  do {
    Tensor x = first;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = as_input(x);
      synchronize(options.device);
      const auto begun = Clock::now();
      const Tensor y = (*layers[i])(x);
      run_backward(y);
      synchronize(options.device);
      times[i].push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
      x = y;
    }
  } while (Clock::now() < until);
  std::vector<double> medians;
  for (std::vector<double>& of_layer : times) medians.push_back(median(std::move(of_layer)));
  return medians;
}

std::vector<double> layer_sizes(nn::Sequential& model, const Tensor& sample,
                                const BalanceBySizeOptions& options) {
  FERRITE_CHECK(options.chunks > 0, ValueError, "balance", "expected one chunk or more, got {}",
                options.chunks);
  const EnableGradGuard recording;
  const SameRandomNumbers same(options.device);
  const auto layers = copies_of(model, options.device);
  std::vector<double> sizes;
  Tensor x = chunk(sample.to(options.device), options.chunks).front();
  for (const auto& layer : layers) {
    x = as_input(x);
    synchronize(options.device);
    const std::size_t before = memory_allocated(options.device);
    const Tensor y = (*layer)(x);
    synchronize(options.device);
    const std::size_t after = memory_allocated(options.device);
    double parameters = 0;
    for (const Tensor& p : layer->parameters()) parameters += static_cast<double>(p.nbytes());
    sizes.push_back(static_cast<double>(after > before ? after - before : 0) +
                    options.param_scale * parameters);
    x = y;
  }
  return sizes;
}

std::vector<std::int64_t> balance_by_time(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceByTimeOptions& options) {
  return balance_by_cost(stages, layer_times(model, sample, options));
}

std::vector<std::int64_t> balance_by_size(int stages, nn::Sequential& model, const Tensor& sample,
                                          const BalanceBySizeOptions& options) {
  return balance_by_cost(stages, layer_sizes(model, sample, options));
}

}  // namespace ferrite::parallel
