#include "ferrite/tests/nn/resnet_support.h"

#include <string>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/pool.h"
#include "ferrite/tests/support/hash.h"

namespace ferrite::test {

void fill(nn::Module& net) {
  std::uint32_t seed = 0;
  for (const Tensor& p : net.parameters())
    set_uniform(p, seed++, p.dim() > 1 ? p.numel() / p.size(0) : 100);
  NoGradGuard guard;
  for (nn::Module* module : net.modules())
    if (auto* const norm = dynamic_cast<nn::BatchNorm*>(module)) norm->weight.add_(1);
  seed = 500;
  for (const auto& [name, b] : net.named_buffers()) {
    if (is_floating(b.dtype())) set_uniform(b, seed, 100);
    if (name.ends_with("running_var")) b.add_(1);
    ++seed;
  }
}

Tensor labels(std::int64_t count, std::int64_t classes) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(hash32(2000, i) % classes);
  return from_vector(values, {count});
}

nn::Module* child(const nn::Module& module, std::string_view name) {
  for (const auto& [key, m] : module.named_children())
    if (key == name) return m;
  return nullptr;
}

Tensor composed(nn::ResNet& net, const Tensor& input) {
  const auto run = [](nn::Module& module, const char* name, const Tensor& x) {
    return (*child(module, name))(x);
  };
  Tensor x = relu(run(net, "bn1", run(net, "conv1", input)));
  if (child(net, "conv1")->parameters()[0].size(2) == 7) x = max_pool2d(x, 3, 2, 1);
  for (const char* stage : {"layer1", "layer2", "layer3", "layer4"})
    for (nn::Module* block : child(net, stage)->children()) {
      Tensor y = run(*block, "bn2",
                     run(*block, "conv2", relu(run(*block, "bn1", run(*block, "conv1", x)))));
      if (child(*block, "conv3")) y = run(*block, "bn3", run(*block, "conv3", relu(y)));
      if (child(*block, "downsample")) x = run(*block, "downsample", x);
      x = relu(y + x);
    }
  return run(net, "fc", adaptive_avg_pool2d(x, 1).flatten(1));
}

}  // namespace ferrite::test
