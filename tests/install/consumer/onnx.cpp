#include <ferrite/nn/models/lenet.h>
#include <ferrite/nn/onnx/onnx.h>
#include <ferrite/ops/compare.h>
#include <ferrite/ops/creation.h>

#include <iostream>

// A user of the component onnx: a network goes into the file that is named, and comes back.
int main(int, char** argv) {
  using namespace ferrite;
  nn::LeNet5 net;
  const Tensor images = ones({2, 1, 28, 28});
  onnx::save(net, images, argv[1], {.dynamic_batch = true});
  const auto read = onnx::load(argv[1]);
  net.eval();
  const bool same = allclose((*read)(images), net(images), 1e-5, 1e-5);
  std::cout << *read << (same ? "the same\n" : "other outputs\n");
  return same ? 0 : 1;
}
