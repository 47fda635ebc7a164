// DataParallel, with the loss on the first device or on all.
#include "ferrite/parallel/data_parallel/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ferrite/core/stream.h"
#include "ferrite/examples/compare_parallel/strategies.h"
#include "ferrite/examples/compare_parallel/training.h"
#include "ferrite/parallel/data_parallel/data_parallel_criterion.h"
#include "ferrite/parallel/data_parallel/scatter.h"

namespace examples::compare {

using namespace ferrite;

namespace {

std::vector<Device> devices_of(const Options& o, int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(device_of(o, i, true));
  return devices;
}

class DataParallel final : public Strategy {
 public:
  DataParallel(const Options& o, const Case& what)
      : Strategy(devices_of(o, what.devices)),
        options_(o),
        what_(what),
        images_(load_images(o, what.batch)),
        trainee_(o, what.amp, devices()[0]),
        dp_(trainee_.model(), devices()),
        criterion_(dp_, loss_of),
        batch_(to_device(images_, devices()[0], o)) {}

  void step() override {
    trainee_.zero_grad();
    if (what_.strategy == "dp-balanced")
      trainee_.backward(criterion_(dp_.parallel_forward(batch_.inputs), batch_.labels));
    else
      trainee_.backward(loss_of(dp_(batch_.inputs), batch_.labels));
    trainee_.update();
  }
  void step_alone() override;
  void reset_counts() override { dp_.reset_report(); }
  Communication communication() const override;

 private:
  /// A device's part of the work, with a model of its own.
  struct Alone {
    Alone(const Options& o, const Case& what, const Device& device, const data::Batch& part)
        : trainee(o, what.amp, device), batch(to_device(part, device, o)) {}
    Trainee trainee;
    data::Batch batch;
  };

  const Options options_;
  const Case what_;
  const data::Batch images_;
  Trainee trainee_;
  parallel::DataParallel<nn::Module> dp_;
  parallel::DataParallelCriterion<Tensor (*)(const Tensor&, const Tensor&)> criterion_;
  const data::Batch batch_;
  std::vector<std::unique_ptr<Alone>> alone_;  // made when they are needed, for their memory
};

/// Every device that has a replica does what that does, and the first updates the parameters.
void DataParallel::step_alone() {
  if (alone_.empty()) {
    const std::vector<Device> host(devices().size());
    const auto images = parallel::scatter(images_.inputs, host);
    const auto labels = parallel::scatter(images_.labels, host);
    for (std::size_t i = 0; i < images.size(); ++i)
      alone_.push_back(std::make_unique<Alone>(options_, what_, devices()[i],
                                               data::Batch{images[i], labels[i]}));
  }
  const auto busy = std::span(devices()).first(alone_.size());
  parallel::parallel_for_devices(busy, [&](std::size_t i) {
    Alone& one = *alone_[i];
    one.trainee.zero_grad();
    one.trainee.backward(loss_of(one.trainee.model()(one.batch.inputs), one.batch.labels));
  });
  alone_[0]->trainee.update();
}

Communication DataParallel::communication() const {
  const parallel::DataParallelReport report = dp_.report();
  // What backward moves of inputs (nothing: they need no gradient) and outputs is as much again.
  const double outputs = what_.strategy == "dp" ? report.bytes_gathered : 0;
  const double sent = report.bytes_scattered + report.bytes_broadcast + outputs;
  const double received = report.bytes_reduced + outputs;
  return {.ms = report.scatter_replicate_ms + report.gather_ms + report.reduction_ms,
          .hidden_ms = std::max(0.0, report.reduction_ms - report.exposed_reduction_ms),
          .bytes_total = std::llround(sent + received),
          .bytes_busiest = std::llround(std::max(sent, received)),
          .buckets = {},
          .parts = {{"scatter_replicate_ms", report.scatter_replicate_ms},
                    {"forward_ms", report.forward_ms},
                    {"gather_ms", report.gather_ms},
                    {"reduction_ms", report.reduction_ms},
                    {"exposed_reduction_ms", report.exposed_reduction_ms}}};
}

}  // namespace

std::unique_ptr<Strategy> make_data_parallel(const Options& o, const Case& what) {
  return std::make_unique<DataParallel>(o, what);
}

}  // namespace examples::compare
