// The whole ResNet-18 against PyTorch, in float32 and through files: from weights that PyTorch
// wrote (tests/golden/record_resnet18.py), and back into Python (tests/golden/check_resnet18.py).
#include "ferrite/tests/nn/resnet18.h"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ferrite/optim/sgd.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// The losses of SGD on batches 0, 1, ...
std::vector<double> train(nn::ResNet& net, std::uint32_t steps, MemoryFormat format) {
  optim::SGD sgd(net.parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4});
  std::vector<double> losses;
  net.train();
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Tensor loss =
        cross_entropy(net(resnet18_images(step).contiguous(format)), resnet18_labels(step));
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

TEST_CASE("forward and backward from PyTorch's weights") {
  check_resnet18_step(Device(), kContiguous);
  check_resnet18_step(Device(), kChannelsLast);
}

TEST_CASE("ten training steps from PyTorch's weights") {
  const Golden golden("resnet18");
  nn::ResNet net = resnet18_of_pytorch();
  // As in the recording, a forward in training mode before the steps updates the running
  // statistics.
  no_grad([&] { net(resnet18_images(0)); });
  check_close(golden.get("step", "losses"), train(net, 10, kContiguous), 1e-3, 1e-3);
  net.eval();
  NoGradGuard guard;
  check_close(net(resnet18_images(0)), golden.get("step", "trained"), 1e-2, 1e-2);
}

TEST_CASE("Python loads and runs a network trained here") {
  std::string name = (std::filesystem::temp_directory_path() / "ferrite-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const std::filesystem::path folder = name;
  nn::ResNet net = resnet18_of_pytorch();
  net.to(kChannelsLast);
  train(net, 2, kChannelsLast);
  save(net.state_dict(), folder / "model.safetensors", {{"model", "resnet18"}});
  net.eval();
  const Tensor images = resnet18_images(1);
  const Tensor logits = no_grad([&] { return net(images); });
  save({{"images", images}, {"logits", logits}}, folder / "results.safetensors");

  // The file is also loaded here, and into a model with another number of classes.
  nn::ResNet again = narrow_resnet18();
  CHECK(again.load_state_dict(load(folder / "model.safetensors")).complete());
  again.eval();
  check_close(no_grad([&] { return again(images); }), logits, 1e-5, 1e-6);

  const std::string script = source_dir() + std::string("/tests/golden/check_resnet18.py");
  const std::string log = (folder / "log").string();
  int code = 127;  // 127: the shell did not find the program; 77: the script did not find NumPy
  std::string said;
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (code != 77 && code != 127) break;
    const int status = std::system(  // NOLINT(cert-env33-c)
        (python + " -B '" + script + "' '" + name + "' >'" + log + "' 2>&1").c_str());
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream in(log);
    said.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (code == 77 || code == 127)
    MESSAGE("skipped: ", code == 127 ? "there is no python3" : said);
  else
    CHECK_MESSAGE(code == 0, said);
  std::filesystem::remove_all(folder);
}
