#include <ferrite/ferrite.h>

#include <iostream>

using namespace ferrite;

// A user's program: one step of a small network, whose loss must fall.
int main() {
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
