// Lines of ONNX as users of PyTorch and onnxruntime would type them: what each does there stands
// above it.
#include <doctest/doctest.h>

#include <sstream>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/inspect/command.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/inference.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/adam.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(relu(bn(conv(x))).mean({2, 3})); }

  nn::Conv2d conv{3, 4, 3};
  nn::BatchNorm2d bn{4};
  nn::Linear fc{4, 2};
};

}  // namespace

TEST_CASE("lines that export, import, run, train and inspect") {
  const TempDir dir;
  const auto path = dir / "net.onnx";
  manual_seed(1);
  Net model;
  const Tensor x = randn({2, 3, 8, 8});

  // torch.onnx.export(model, x, path)
  onnx::save(model, x, path);
  // torch.onnx.export(model, (x,), path, opset_version=18, input_names=["image"],
  //                   output_names=["scores"], dynamic_axes={"image": {0: "batch"}})
  onnx::save(
      model, std::tuple(x), path,
      {.opset = 18, .dynamic_batch = true, .input_names = {"image"}, .output_names = {"scores"}});

  // session = onnxruntime.InferenceSession(path)
  auto session = onnx::load(path);
  // session.get_inputs()[0].name, session.get_outputs()[0].name
  CHECK(session->input_names()[0] == "image");
  CHECK(session->output_names()[0] == "scores");
  {
    // with torch.inference_mode():
    const InferenceMode guard;
    model.eval();
    // session.run(None, {"image": x})[0]
    CHECK(allclose(session->run({x})[0], model(x), 1e-4, 1e-5));
    CHECK(session->run({randn({5, 3, 8, 8})})[0].shape() == Shape{5, 2});
    // model(x)
    CHECK(allclose((*session)(x), model(x), 1e-4, 1e-5));
  }

  // torch.onnx's file as a module: onnx2torch.convert(path)
  auto net = onnx::load(path);
  // for name, p in net.named_parameters(): p.requires_grad = name.startswith("fc")
  for (const auto& [name, p] : net->named_parameters()) p.set_requires_grad(name.starts_with("fc"));
  // net.train(); optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
  net->train();
  optim::AdamW optimizer(net->parameters(), {.lr = 1e-2});
  const Tensor target = from_vector<std::int64_t>({0, 1}, {2});
  const Tensor before = net->get_parameter("conv.weight").clone();
  // loss = F.cross_entropy(net(x), target); loss.backward(); optimizer.step()
  const Tensor loss = cross_entropy((*net)(x), target);
  loss.backward();
  optimizer.step();
  CHECK(cross_entropy((*net)(x), target).item<float>() < loss.item<float>());
  CHECK(equal(net->get_parameter("conv.weight"), before));
  // safetensors.torch.save_file(net.state_dict(), ...); model.load_state_dict(...)
  data::save_safetensors(net->state_dict(), dir / "net.safetensors");
  model.load_state_dict(data::load_safetensors(dir / "net.safetensors"), {.strict = false});
  CHECK(equal(model.fc.weight, net->get_parameter("fc.weight")));
  // torch.onnx.export(net, x, path) of what was imported
  onnx::save(*net, x, path, {.dynamic_batch = true});

  // The command line.
  std::ostringstream out, err;
  CHECK(inspect::run({path.string()}, out, err) == 0);
  CHECK(inspect::run({path.string(), "--json"}, out, err) == 0);
  CHECK(inspect::run({path.string(), "--diff", path.string()}, out, err) == 0);
  CHECK(inspect::run({path.string(), "--convert", (dir / "w.pth").string()}, out, err) == 0);
}
