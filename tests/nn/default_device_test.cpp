// Layers made on another default device than the host.
#include <doctest/doctest.h>

#include "ferrite/core/device.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/module.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;

TEST_CASE("layers are made on the default device, with the numbers that they have on the host") {
  for (const test::Layer& layer : test::layer_table()) {
    if (layer.is_model) continue;
    CAPTURE(layer.name);
    manual_seed(3);
    const auto host = layer.make();
    manual_seed(3);
    const DefaultDeviceScope scope("cpu:1");
    const auto there = layer.make();
    const StateDict expected = host->state_dict();
    for (const auto& [name, tensor] : there->state_dict()) {
      CAPTURE(name);
      if (name == "second" || name == "third" || name == "target") continue;  // the table's own
      CHECK(tensor.device() == Device("cpu:1"));
      test::check_equal(tensor.cpu(), expected.at(name));
    }
    there->to("cpu:1");
    host->eval();
    there->eval();
    const Tensor x = test::make_input(layer, kFloat32, Device());
    test::check_equal((*there)(x.to("cpu:1")).cpu(), (*host)(x));
  }
}
