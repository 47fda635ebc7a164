#include "ferrite/examples/compare_parallel/strategies.h"

#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/training.h"
#include "ferrite/parallel/comm/process_group.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"

namespace examples::compare {

using namespace ferrite;

Device device_of(const Options& o, int index, bool shares_process) {
  if (o.is_cuda()) return Device(DeviceType::cuda, index);
  return shares_process ? Device(DeviceType::cpu, index) : Device();
}

namespace {

// ---- One device

class Single final : public Strategy {
 public:
  Single(const Options& o, const Case& what, const Device& device)
      : Strategy({device}),
        trainee_(o, what.amp, device),
        batch_(to_device(load_images(o, what.batch), device, o)) {}

  void step() override {
    trainee_.zero_grad();
    trainee_.backward(loss_of(trainee_.model()(batch_.inputs), batch_.labels));
    trainee_.update();
  }
  void step_alone() override { step(); }

 private:
  Trainee trainee_;
  data::Batch batch_;
};

// ---- A rank

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<std::int64_t>(t.nbytes());
  return bytes;
}

class Distributed final : public Strategy {
 public:
  Distributed(const Options& o, const Case& what, const Device& device)
      : Strategy({device}),
        trainee_(o, what.amp, device),
        ddp_(trainee_.model(), ddp_options(what)),
        batch_(to_device(
            part_of(load_images(o, what.batch), parallel::get_rank(), parallel::get_world_size()),
            device, o)) {}

  void step() override {
    trainee_.zero_grad();
    trainee_.backward(loss_of(ddp_(batch_.inputs), batch_.labels));
    trainee_.update();
  }
  void step_alone() override {
    const parallel::NoSync alone = ddp_.no_sync();
    step();
  }
  void reset_counts() override { ddp_.reset_report(); }
  void meet() override {
    synchronize(devices()[0]);
    parallel::barrier();
  }
  Communication communication() const override;

 private:
  static parallel::DDPOptions ddp_options(const Case& c) {
    return {.bucket_cap_mb = c.bucket_mb,
            .first_bucket_mb = std::min(1.0, c.bucket_mb),
            .delay_allreduce = !c.overlap,
            .all_reduce = c.strategy == "ddp-ring" ? parallel::AllReduceAlgorithm::ring
                                                   : parallel::AllReduceAlgorithm::automatic};
  }

  Trainee trainee_;
  parallel::DistributedDataParallel<nn::Module> ddp_;
  data::Batch batch_;
};

/// A ring's bytes: each rank sends 2 (n - 1) / n of a bucket. Buffers go from rank 0 to all.
Communication Distributed::communication() const {
  const parallel::DDPReport report = ddp_.report();
  Communication all{.ms = report.communication_ms,
                    .hidden_ms = std::max(0.0, report.communication_ms - report.exposed_ms),
                    .buckets = {},
                    .parts = {{"backward_ms", report.backward_ms},
                              {"communication_ms", report.communication_ms},
                              {"exposed_ms", report.exposed_ms}}};
  const std::int64_t n = parallel::get_world_size();
  const std::int64_t buffers = bytes_of(ddp_.buffers());
  all.bytes_total = 2 * (n - 1) * report.bytes + (n - 1) * buffers;
  all.bytes_busiest = 2 * (n - 1) * report.bytes / n + (n - 1) * buffers;
  for (const auto& b : report.buckets)
    all.buckets.push_back({.bytes = b.bytes,
                           .parameters = static_cast<std::int64_t>(b.parameters.size()),
                           .ready_ms = b.ready_ms,
                           .begun_ms = b.begun_ms,
                           .ended_ms = b.ended_ms});
  return all;
}

}  // namespace

std::unique_ptr<Strategy> make_single(const Options& o, const Case& what) {
  return std::make_unique<Single>(o, what, device_of(o, 0, false));
}

std::unique_ptr<Strategy> make_ddp(const Options& o, const Case& what) {
  return std::make_unique<Distributed>(o, what,
                                       device_of(o, parallel::get_rank(), o.ranks == "thread"));
}

}  // namespace examples::compare
