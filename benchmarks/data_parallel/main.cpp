// The gain of data parallelism on two cores, measured in turns: one single-threaded device against
// DataParallel over two virtual devices, replicate() against a bare broadcast of as many bytes, and
// one single-threaded process against two with DistributedDataParallel. One command, ratios.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ferrite/benchmarks/data_parallel/measure.h"
#include "ferrite/benchmarks/data_parallel/processes.h"
#include "ferrite/benchmarks/program.h"
#include "ferrite/ferrite.h"

namespace {

using namespace ferrite;
using namespace ferrite::bench;
using nlohmann::json;

/// A row of the table: the two sides, in units per second.
struct Comparison {
  std::string what, unit;
  double base = 0, parallel = 0;
  Ratio ratio;
  double work = 0;  ///< processor time of the second side divided by the first's; 0: not known
  double target = 0;
  bool at_most = false;  ///< the target
};

void print(const Comparison& c) {
  fmt::print("| {} | {:.4g} {} | {:.4g} {} | {:.2f} ± {:.2f} | {} {:.1f} | {} |\n", c.what, c.base,
             c.unit, c.parallel, c.unit, c.ratio.median, c.ratio.spread,
             c.at_most ? "at most" : "at least", c.target,
             c.work > 0 ? fmt::format("{:.2f}", c.work) : "-");
  std::cout.flush();
}

json to_json(const Comparison& c) {
  return {{"what", c.what},         {"unit", c.unit},          {"base", c.base},
          {"parallel", c.parallel}, {"ratio", c.ratio.median}, {"spread", c.ratio.spread},
          {"work", c.work},         {"target", c.target}};
}

/// A model that trains on a batch on one device.
class Alone {
 public:
  Alone(const Options& o, const Device& device) : model_(make_model(o.model)), device_(device) {
    model_->to(device);
  }
  void step(const Batch& batch) {
    sgd_.zero_grad();
    cross_entropy((*model_)(batch.x), batch.y).backward();
    sgd_.step();
  }
  void synchronize() { ferrite::synchronize(device_); }

 private:
  std::unique_ptr<nn::Module> model_;
  Device device_;
  optim::SGD sgd_{model_->parameters(), {.lr = 1e-3, .momentum = 0.9}};
};

class Parallel {
 public:
  Parallel(const Options& o, const std::vector<Device>& devices)
      : model_(make_model(o.model)), loss_in_replicas_(o.loss_in_replicas) {
    model_->to(devices[0]);
    dp_ = std::make_unique<parallel::DataParallel<>>(*model_, devices);
    sgd_ = std::make_unique<optim::SGD>(dp_->parameters(),
                                        optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  }
  void step(const Batch& batch) {
    sgd_->zero_grad();
    if (loss_in_replicas_)
      parallel::DataParallelCriterion(
          *dp_, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); })(
          dp_->parallel_forward(batch.x), batch.y)
          .backward();
    else
      cross_entropy((*dp_)(batch.x), batch.y.to(dp_->devices()[0])).backward();
    sgd_->step();
  }
  void synchronize() {
    for (const Device& device : dp_->devices()) ferrite::synchronize(device);
  }
  parallel::DataParallel<>& dp() { return *dp_; }
  nn::Module& model() { return *model_; }

 private:
  std::unique_ptr<nn::Module> model_;
  const bool loss_in_replicas_;
  std::unique_ptr<parallel::DataParallel<>> dp_;
  std::unique_ptr<optim::SGD> sgd_;
};

Comparison measure_data_parallel(const Options& o, const std::vector<Device>& devices,
                                 const Device& one) {
  const Batch batch = make_batch(o.batch, devices[0]);
  const Batch of_one = make_batch(o.batch, one);
  Alone alone(o, one);
  Parallel both(o, devices);
  const Timed base = [&](std::int64_t steps) {
    return time_of([&] {
      for (std::int64_t i = 0; i < steps; ++i) alone.step(of_one);
      alone.synchronize();
    });
  };
  const Timed parallel = [&](std::int64_t steps) {
    return time_of([&] {
      for (std::int64_t i = 0; i < steps; ++i) both.step(batch);
      both.synchronize();
    });
  };
  base(2), parallel(2);
  both.dp().reset_report();
  const InTurns t = in_turns(o, base, parallel);
  if (o.reports) std::cerr << both.dp().report() << '\n';
  const auto images = static_cast<double>(o.batch);
  return {.what = fmt::format("DataParallel on {} against {} on one thread, batches of {}",
                              fmt::join(devices, ", "), one, o.batch),
          .unit = "images/s",
          .base = images / t.base,
          .parallel = images / t.other,
          .ratio = t.gain,
          .work = t.work.median,
          .target = 1.5};
}

/// Milliseconds of a replicate(), and of sending the module's tensors, or one of as many bytes.
Comparison measure_replicate(const Options& o, const std::vector<Device>& devices, bool as_one) {
  Parallel both(o, devices);
  parallel::dp::DeviceComm& comm = both.dp().comm(devices.size());
  std::vector<Tensor> sent = both.model().parameters();
  for (const Tensor& t : both.model().buffers()) sent.push_back(t);
  std::size_t bytes = 0;
  for (const Tensor& t : sent) bytes += t.nbytes();
  if (as_one)
    sent = {zeros({static_cast<std::int64_t>(bytes)}, {.dtype = kUInt8, .device = devices[0]})};
  const auto timed = [&](const auto& f) {
    return [&both, f](std::int64_t times) {
      return time_of([&] {
        for (std::int64_t i = 0; i < times; ++i) {
          f();
          both.synchronize();
        }
      });
    };
  };
  const Timed broadcast = timed([&] { comm.broadcast(sent); });
  const Timed replicas = timed([&] { parallel::replicate(both.model(), comm); });
  broadcast(2), replicas(2);
  const InTurns t = in_turns(o, broadcast, replicas);
  return {.what = fmt::format("replicate() against a broadcast of its {:.1f} MB {}",
                              static_cast<double>(bytes) / (1 << 20),
                              as_one ? "as one tensor" : "as they lie"),
          .unit = "ms",
          .base = 1e3 * t.base,
          .parallel = 1e3 * t.other,
          .ratio = t.cost,
          .work = t.work.median,
          .target = 1.2,
          .at_most = true};
}

Comparison measure_processes(const Options& o, const std::vector<std::string>& arguments) {
  const json r = run_processes(o, arguments);
  return {.what = fmt::format("DistributedDataParallel in 2 processes of one thread against one, "
                              "batches of {} together",
                              o.batch),
          .unit = "images/s",
          .base = r["base"],
          .parallel = r["parallel"],
          .ratio = {r["ratio"], r["spread"]},
          .target = 1.7};
}

void run_all(const Options& o, const std::vector<std::string>& arguments) {
  // Checked before minutes are spent on measurements.
  FERRITE_CHECK(o.json.empty() || std::ofstream(o.json, std::ios::app), IoError, "--json",
                "cannot write '{}'", o.json);
  set_num_threads(1);
  std::vector<Device> devices(o.devices.begin(), o.devices.end());
  fmt::print(
      "{}, {} processors, medians of {} rounds in turns\n\n"
      "| | one | parallel | ratio | target | processor time |\n"
      "| :-- | --: | --: | --: | --: | --: |\n",
      o.model, processors(), o.rounds);
  json all = json::array();
  const auto row = [&](const Comparison& c) {
    print(c);
    all.push_back(to_json(c));
  };
  const auto wanted = [&](const char* what) { return std::ranges::count(o.only, what) > 0; };
  if (wanted("dp")) {
    row(measure_data_parallel(o, devices, devices[0]));
    if (devices[0].is_cpu()) row(measure_data_parallel(o, devices, Device()));
  }
  if (wanted("replicate"))
    for (const bool as_one : {true, false}) row(measure_replicate(o, devices, as_one));
  if (wanted("ddp")) row(measure_processes(o, arguments));
  if (o.json.empty()) return;
  std::ofstream file(o.json);
  file << all.dump(1) << '\n' << std::flush;
  FERRITE_CHECK(file, IoError, "--json", "cannot write '{}'", o.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app(
      "The gain of data parallelism: DataParallel over two devices, replicate(), and "
      "DistributedDataParallel over two processes, each against one");
  app.option_defaults()->group("What is compared");
  app.add_option("--model", o.model, "resnet18 (small images) or lenet")->capture_default_str();
  app.add_option("--only", o.only, "some of dp, replicate, ddp")
      ->delimiter(',')
      ->check(CLI::IsMember({"dp", "replicate", "ddp"}))
      ->capture_default_str();
  app.add_option("--devices", o.devices, "of DataParallel")->delimiter(',')->capture_default_str();
  app.add_option("--batch", o.batch, "images per step, over all devices")->capture_default_str();
  app.add_flag("--loss-in-replicas", o.loss_in_replicas, "DataParallelCriterion");
  app.option_defaults()->group("Measurement");
  app.add_option("--rounds", o.rounds, "rounds, of which medians are taken")->capture_default_str();
  app.add_option("--seconds", o.seconds, "a measurement")->capture_default_str();
  app.add_flag("--reports", o.reports, "print where DataParallel spends its time, on stderr");
  app.add_option("--json", o.json, "file for the figures");
  app.add_option("--process-folder", o.process_folder)->group("");
  return ::bench::run(app, argc, argv, [&] {
    if (o.process_folder.empty())
      run_all(o, {argv, argv + argc});
    else
      run_process(o);
  });
}
