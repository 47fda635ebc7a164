// Networks as PyTorch's exporters write them (tests/golden/record_onnx.py), against PyTorch's
// outputs.
#include <doctest/doctest.h>

#include "ferrite/data/npy.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/paths.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("networks of PyTorch's exporters compute the same, are trained, and travel on") {
  const std::filesystem::path folder = std::filesystem::path(source_dir()) / "tests/golden/onnx";
  const TempDir dir;
  for (const std::string name : {"resnet18", "resnet50", "mobilenet_v2", "mobilenet_v2_dynamo",
                                 "vit", "vit_dynamo", "recurrent"}) {
    CAPTURE(name);
    const auto network = onnx::load(folder / (name + ".onnx"));
    const Tensor input = data::load_npy(folder / (name + ".input.npy"));
    const Tensor expected = data::load_npy(folder / (name + ".output.npy"));
    const Tensor output = (*network)(input);
    const double most = std::max(1.0, amax(abs(expected)).item<double>());
    CHECK(allclose(output, expected, 0, 1e-5 * most));

    // One step of training brings the outputs closer to others.
    CHECK(!network->parameters().empty());
    optim::SGD sgd(network->parameters(), {.lr = 1e-5});
    const auto loss = [&] { return mean(square((*network)(input) - (expected + 1.0))); };
    const Tensor before = loss();
    before.backward();
    int graded = 0;
    for (const Tensor& p : network->parameters()) graded += p.grad().defined() ? 1 : 0;
    CHECK(graded == static_cast<int>(network->parameters().size()));
    sgd.step();
    CHECK(loss().item<double>() < before.item<double>());

    // What was read can be written again.
    const Tensor now = (*network)(input).detach();
    onnx::save(*network, input, dir / "again.onnx");
    CHECK(allclose((*onnx::load(dir / "again.onnx"))(input), now, 0, 1e-5 * most));
  }
}
