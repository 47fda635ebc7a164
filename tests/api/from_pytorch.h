// What the lines of docs/from_pytorch.md use: from_pytorch.py compiles them.
#pragma once

#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <complex>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace from_pytorch {

using namespace ferrite;
using namespace ferrite::indexing;

struct Points : data::Dataset {
  std::int64_t size() const override { return 4; }
  data::Sample get(std::int64_t i) const override { return {rand({3}), tensor(i)}; }
};

struct Lines {
  Tensor x = rand({4, 3}) + 0.5, y = rand({4, 3}) + 0.5;
  Tensor m = eye(3) + rand({3, 3}) / 4, n = eye(3) + rand({3, 3}) / 4;
  Tensor w = randn({3, 2}, requires_grad());
  Tensor mask = rand({4, 3}) > 0.5, rows = tensor({0, 2}), labels = tensor({0, 4, 2, 1});
  Tensor images = rand({2, 3, 8, 8}), scores = randn({4, 5});
  nn::Sequential net{nn::Linear(3, 8), nn::ReLU(), nn::Linear(8, 5)};
  optim::SGD sgd{net.parameters(), {.lr = 0.1}};
  Tensor loss = cross_entropy(net(x), labels);
  Points train;
  data::DataLoader<> loader{train, {.batch_size = 2}};
  std::ostringstream out;
  std::filesystem::path folder = "runs", path = "net.safetensors";
};

}  // namespace from_pytorch
