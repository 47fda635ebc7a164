// Runs that PyTorch began (tests/data/make_pth.py), and that go on here.
#include "ferrite/data/pth.h"

#include "ferrite/nn/layers.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/grad_scaler.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::Value;

/// A network, its optimizer, a schedule and a scaler, with options unlike those of the files.
template <class Optimizer>
struct Run {
  nn::Sequential net{nn::Linear(6, 8), nn::Tanh(), nn::Linear(8, 2)};
  Optimizer optimizer{net.parameters(), {.lr = 0.5}};
  optim::StepLR scheduler{optimizer, 100, 0.9};
  optim::GradScaler scaler;

  double step(const Tensor& inputs, const Tensor& targets) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net(inputs), targets);
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    scheduler.step();
    return loss.item<double>();
  }
  void load(const Value& run) {
    net.load_state_dict(run["model"].tensors());
    optimizer.load_state_dict(data::state_of_torch(run["optimizer"]));
    scheduler.load_state_dict(data::state_of_torch(run["scheduler"]));
    scaler.load_state_dict(data::state_of_torch(run["scaler"]));
  }
  Value save() const {
    return Value::dict({{"model", net.state_dict()},
                        {"optimizer", data::state_for_torch(optimizer.state_dict())},
                        {"scheduler", data::state_for_torch(scheduler.state_dict())},
                        {"scaler", data::state_for_torch(scaler.state_dict())}});
  }
};

template <class Optimizer>
void check_resumes(const std::string& name) {
  CAPTURE(name);
  const Value file = data::load_pth("tests/data/pth/run_" + name + ".pth");
  const Tensor inputs = file["inputs"].to_tensor(), targets = file["targets"].to_tensor();
  Run<Optimizer> run;
  run.load(file);
  // What is saved for PyTorch loads here as well, and has its names.
  const Value saved = run.save();
  CHECK(saved["optimizer"]["param_groups"][0]["lr"].to_double() ==
        file["optimizer"]["param_groups"][0]["lr"].to_double());
  CHECK(saved["optimizer"]["param_groups"][0]["params"].str() == "[0, 1, 2, 3]");
  for (const auto& [key, state] : file["optimizer"]["state"].entries())
    for (const auto& [part, tensor] : state.entries()) {
      CAPTURE(part.str());
      if (tensor.is_tensor())
        check_close(saved["optimizer"]["state"][key][part].to_tensor(), tensor.to_tensor());
    }
  Run<Optimizer> again;
  again.load(saved);
  for (const Value& expected : file["losses"].items()) {
    const double loss = run.step(inputs, targets);
    CHECK(loss == doctest::Approx(expected.to_double()).epsilon(1e-5));
    CHECK(again.step(inputs, targets) == loss);
  }
  CHECK(run.scaler.get_scale() == file["scale"].to_double());
}

}  // namespace

TEST_CASE("runs that PyTorch began go on with its losses") {
  check_resumes<optim::SGD>("SGD");
  check_resumes<optim::Adam>("Adam");
  check_resumes<optim::AdamW>("AdamW");
}

TEST_CASE("runs that were begun here go on in PyTorch with the same losses") {
  const char* python = std::getenv("FERRITE_TORCH_PYTHON");
  if (!python) {
    MESSAGE("skipped: FERRITE_TORCH_PYTHON names no Python with PyTorch");
    return;
  }
  const TempDir dir;
  Run<optim::AdamW> run;
  const Tensor inputs = randn({16, 6}), targets = randn({16, 2});
  for (int i = 0; i < 10; ++i) run.step(inputs, targets);
  Value::List losses;
  data::save_pth(run.save(), dir / "run.pth");
  for (int i = 0; i < 20; ++i) losses.emplace_back(run.step(inputs, targets));
  data::save_pth(
      Value::dict(
          {{"inputs", inputs}, {"targets", targets}, {"losses", Value::list(std::move(losses))}}),
      dir / "expected.pth");
  const std::string out = (dir / "out").string();
  const int status =
      std::system((std::string(python) + " tests/data/resume_pth.py " + (dir / "run.pth").string() +
                   " " + (dir / "expected.pth").string() + " >" + out + " 2>&1")
                      .c_str());
  CHECK_MESSAGE(status == 0, read_file(out));
}
