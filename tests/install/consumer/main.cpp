#include <ferrite/ferrite.h>
#include <ferrite/version.h>

#include <iostream>
#include <string>

using namespace ferrite;

// A user's program: one step of a small network, whose loss must fall.
int main() {
#if defined(FOUND_VERSION)
  if (version() != std::string(FOUND_VERSION) || kVersion != std::string(FOUND_VERSION)) {
    std::cout << "found " FOUND_VERSION ", headers of " << kVersion << ", library " << version()
              << '\n';
    return 1;
  }
#endif
  manual_seed(0);
  nn::Sequential model(nn::Linear(3, 8), nn::Tanh(), nn::Linear(8, 1));
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  const Tensor x = randn({16, 3});
  const Tensor y = x.sum({1}, true);

  const Tensor before = mse_loss(model(x), y);
  before.backward();
  sgd.step();
  const Tensor after = mse_loss(model(x), y);
  std::cout << model << "\nloss " << before.item<float>() << ", then " << after.item<float>()
            << '\n';
  return after.item<float>() < before.item<float>() ? 0 : 1;
}
