#include "ferrite/examples/compare_parallel/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/parallel/comm/backend.h"

namespace examples::compare {

using namespace ferrite;

namespace {

const std::vector<std::string> kStrategies = {"single", "dp", "dp-balanced", "ddp", "ddp-ring"};

/// Line rates, and latencies of a message as such networks are commonly measured to have.
const std::map<std::string, LinkDelay> kLinks = {
    {"none", {}},
    {"ethernet-1g", {50, 0.125}},
    {"ethernet-10g", {30, 1.25}},
    {"ethernet-25g", {20, 3.125}},
    {"ethernet-100g", {10, 12.5}},
    {"infiniband-hdr", {2, 25}},
};

template <class T>
void sort_unique(std::vector<T>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// 1, 2, 4, ... of those that there are.
std::vector<int> default_devices(const Options& o) {
  const int count = o.is_cuda() ? cuda::device_count() : 2;
  std::vector<int> devices;
  for (int n = 1; n <= count; n *= 2) devices.push_back(n);
  if (devices.back() != count) devices.push_back(count);
  return devices;
}

bool is_ddp(const std::string& strategy) { return strategy.starts_with("ddp"); }

}  // namespace

LinkDelay link_delay(const std::string& text) {
  if (const auto preset = kLinks.find(text); preset != kLinks.end()) return preset->second;
  LinkDelay link;
  int read = 0;
  const bool good =
      std::sscanf(text.c_str(), "%lfus,%lfGB/s%n", &link.microseconds, &link.gbps, &read) == 2 &&
      read == static_cast<int>(text.size()) && link.microseconds >= 0 && link.gbps >= 0;
  std::vector<std::string> names;
  for (const auto& [name, delay] : kLinks) names.push_back(name);
  FERRITE_CHECK(good, ValueError, "--link-delay",
                "expected one of {}, or latency and bandwidth such as 100us,1.25GB/s, got '{}'",
                fmt::join(names, ", "), text);
  return link;
}

namespace {

void add_what_is_trained(CommandLine& app, Options& o) {
  app.topic("Model and data");
  app.add_option("--model", o.model, "network")
      .check(one_of({"lenet5", "d2l-lenet", "resnet18"}))
      .capture_default_str();
  app.add_option("--dataset", o.dataset, "data set to train on; synthetic images are noise")
      .check(one_of(
          {"synthetic", "synthetic-digits", "mnist", "fashion-mnist", "cifar10", "image-folder"}))
      .capture_default_str();
  app.add_option("--data", o.data,
                 "folder that holds the data set (default $FERRITE_DATA, ./data-sets)");
  app.add_option(
         "--image-size", o.image_size,
         "height and width of images (default 28 for synthetic images, 224 for image folders)")
      .check(whole<std::int64_t>(1));
  app.add_option("--channels", o.channels, "channels of synthetic images")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--classes", o.classes, "classes of synthetic images")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--width", o.width, "channels of ResNet-18's first stage")
      .check(whole<std::int64_t>(1))
      .capture_default_str();
}

void add_what_is_compared(CommandLine& app, Options& o) {
  app.topic("Comparison");
  app.add_option("--device", o.device,
                 "kind of devices; cpu: virtual devices; auto: cuda if available")
      .check(one_of({"auto", "cuda", "cpu"}))
      .capture_default_str();
  app.add_option("--devices", o.devices,
                 "numbers of devices, such as 1,2,4 (default powers of two up to all GPUs; 1,2 on "
                 "the CPU)")
      .delimiter(',')
      .check(whole(1, 64));
  app.add_option("--batch", o.batch,
                 "images per step, of all devices (strong scaling) or of each device (weak "
                 "scaling) (default 64; resnet18: 32)")
      .check(whole<std::int64_t>(1));
  app.add_option("--scaling", o.scaling,
                 "strong: the same batch in total; weak: the same batch per device")
      .check(one_of({"strong", "weak", "both"}))
      .capture_default_str();
  app.add_option("--strategies", o.strategies,
                 "strategies to measure (default all; with --link-delay, all except ddp)")
      .delimiter(',')
      .check(one_of(kStrategies));
  app.add_option("--bucket-mb", o.bucket_mb,
                 "DistributedDataParallel's bucket sizes in MB (default 25, and a size that gives "
                 "several buckets)")
      .delimiter(',')
      .check(above_zero());
  app.add_option("--overlap", o.overlap,
                 "on: all-reduce during backward; off: all-reduce after it (delay_allreduce)")
      .delimiter(',')
      .check(one_of({"on", "off"}))
      .capture_default_str();
  app.add_option("--amp", o.amp, "opt levels of mixed precision, such as O0,O1,O2 (default O0)")
      .delimiter(',')
      .check(one_of({"O0", "O1", "O2", "O3"}));
  app.add_option("--threads", o.threads, "compute threads per device")
      .check(whole(1, 1024))
      .capture_default_str();
  app.add_flag("--all-threads", o.all_threads,
               "also measure a single device with one thread per processor");
  app.add_option("--ranks", o.ranks,
                 "whether DistributedDataParallel's ranks are processes or threads")
      .check(one_of({"process", "thread"}))
      .capture_default_str();
  app.add_option("--backend", o.backend,
                 "backend of ranks that are processes (default depends on the device)")
      .check(one_of({"nccl", "gloo"}));
  app.add_option("--link-delay", o.link_delay,
                 "simulate a network between ranks of this host (gloo, not ddp): none, "
                 "ethernet-1g, ethernet-10g, ethernet-25g, ethernet-100g, infiniband-hdr, or "
                 "latency and bandwidth, such as 100us,1.25GB/s")
      .capture_default_str();
}

void add_how(CommandLine& app, Options& o) {
  app.topic("Measurement");
  app.add_option("--steps", o.steps,
                 "steps per repetition (default 100; resnet18: 3, on CUDA devices 50)")
      .check(whole(1));
  app.add_option("--warmup", o.warmup,
                 "warm-up steps, not measured (default 5; resnet18: 2; on CUDA devices 10)")
      .check(whole(2));
  app.add_option("--repetitions", o.repetitions, "rounds; all cases take turns in each round")
      .check(whole(1))
      .capture_default_str();
  app.add_flag("!--no-profile", o.profile,
               "do not measure the times of layers and links that --json records for simulations");
  app.add_option("--timeout", o.timeout, "time limit of a strategy per repetition, in seconds")
      .check(above_zero())
      .capture_default_str();
  app.add_option("--seed", o.seed, "seed of weights and synthetic images").capture_default_str();
  app.topic("Files");
  app.add_option("--json", o.json, "JSON file for all measurements");
  app.add_option("--csv", o.csv, "CSV file for the table");
  app.add_option("--svg", o.svg, "SVG file for a chart");
  app.add_flag("--quiet", o.quiet, "do not print progress");
  app.add_option("--worker", o.worker).group("");
  app.add_option("--job", o.job).group("");
}

/// Delays are played by Ferrite's own links between processes, and by nothing else.
void check_delayed(const Options& o) {
  FERRITE_CHECK(o.ranks == "process", ValueError, "--link-delay",
                "ranks that are threads have no links to slow down: omit --ranks");
  FERRITE_CHECK(o.backend != "nccl", ValueError, "--link-delay",
                "NCCL's links cannot be slowed down: use --backend gloo");
  FERRITE_CHECK(std::ranges::find(o.strategies, "ddp") == o.strategies.end(), ValueError,
                "--link-delay",
                "connections of Gloo's own all-reduce (ddp) cannot be slowed down: use ddp-ring");
}

void complete_devices(Options& o) {
  if (o.device == "auto") o.device = cuda::is_available() ? "cuda" : "cpu";
  FERRITE_CHECK(!o.is_cuda() || cuda::is_available(), DeviceError, "--device",
                "there is no CUDA device: {}", cuda::why_unavailable());
  if (o.devices.empty()) o.devices = default_devices(o);
  sort_unique(o.devices);
  FERRITE_CHECK(!o.is_cuda() || o.devices.back() <= cuda::device_count(), DeviceError, "--devices",
                "{} devices were requested, but there are {} CUDA devices", o.devices.back(),
                cuda::device_count());
}

}  // namespace

void add_options(CommandLine& app, Options& options) {
  add_what_is_trained(app, options);
  add_what_is_compared(app, options);
  add_how(app, options);
}

void complete(Options& o) {
  const bool resnet = o.model == "resnet18";
  complete_devices(o);
  o.batch_given = o.batch != 0;
  if (o.batch == 0) o.batch = resnet ? 32 : 64;
  // A GPU's steps are short, and its first ones choose algorithms.
  if (o.steps == 0) o.steps = !resnet ? 100 : o.is_cuda() ? 50 : 3;
  if (o.warmup == 0) o.warmup = o.is_cuda() ? 10 : resnet ? 2 : 5;
  if (o.bucket_mb.empty()) o.bucket_mb = {25, resnet ? 5 : 0.1};
  if (o.amp.empty()) o.amp = {"O0"};
  if (o.image_size == 0) o.image_size = o.dataset == "image-folder" ? 224 : 28;
  FERRITE_CHECK(resnet || o.dataset != "synthetic" || (o.image_size == 28 && o.channels == 1) ||
                    (o.image_size == 28 && o.model == "lenet5"),
                ValueError, "--image-size", "{} takes images of 28 x 28{}", o.model,
                o.model == "lenet5" ? "" : " with one channel");
  if (o.backend.empty() && o.ranks == "process")
    o.backend = o.is_cuda() && parallel::has_nccl() ? "nccl" : "gloo";
  FERRITE_CHECK(o.ranks == "process" || o.backend.empty(), ValueError, "--backend",
                "ranks that are threads have their own backend");
  if (o.ranks == "thread") o.backend = "local";
  FERRITE_CHECK(o.backend != "nccl" || o.is_cuda(), ValueError, "--backend",
                "nccl is for CUDA devices");
  if (link_delay(o.link_delay).any()) check_delayed(o);
  if (o.strategies.empty()) {
    o.strategies = kStrategies;
    if (link_delay(o.link_delay).any()) std::erase(o.strategies, "ddp");
  }
}

std::vector<Case> cases_of(const Options& o) {
  std::vector<Case> cases;
  const auto add = [&](const Case& c) {
    if (std::ranges::find(cases, c) == cases.end()) cases.push_back(c);
  };
  const auto chosen = [&](const std::string& strategy) {
    return std::ranges::find(o.strategies, strategy) != o.strategies.end();
  };
  for (const std::string& amp : o.amp) {
    if (!chosen("single")) continue;
    const Case single{.strategy = "single", .amp = amp, .batch = o.batch, .threads = o.threads};
    add(single);
    Case all = single;
    all.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    all.all_threads = true;
    if (o.all_threads && !o.is_cuda()) add(all);
  }
  for (const std::string scaling : {"strong", "weak"}) {
    if (o.scaling != "both" && o.scaling != scaling) continue;
    for (const std::string& amp : o.amp)
      for (const int devices : o.devices)
        for (const std::string& strategy : kStrategies) {
          if (!chosen(strategy) || strategy == "single" || devices == 1) continue;
          Case c{.strategy = strategy,
                 .devices = devices,
                 .scaling = scaling,
                 .amp = amp,
                 .batch = scaling == "strong" ? o.batch : o.batch * devices,
                 .threads = o.threads};
          if (!is_ddp(strategy)) {
            add(c);
            continue;
          }
          for (const double mb : o.bucket_mb)
            for (const std::string& overlap : o.overlap) {
              c.bucket_mb = mb;
              c.overlap = overlap == "on";
              add(c);
            }
        }
  }
  FERRITE_CHECK(
      !cases.empty(), ValueError, "--strategies",
      "there is nothing to measure: all strategies except single need --devices of 2 or more");
  return cases;
}

}  // namespace examples::compare
