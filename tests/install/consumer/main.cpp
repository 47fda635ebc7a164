#include <cstdio>
#include <vector>

#include "core/generator.h"
#include "core/tensor.h"

int main() {
  ferrite::manual_seed(0);
  const auto tensor = ferrite::from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  std::printf("%s\n", tensor.describe().c_str());
  const auto last = ferrite::as_strided(tensor, {1}, {1}, 5).item<float>();
  return last == 6 ? 0 : 1;
}
