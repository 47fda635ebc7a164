// Every launch of a training step in its order, with the bytes that it moves and the time that a
// GPU's figures allow; on a GPU, with the time that it took.
#include <fmt/format.h>

#include <fstream>

#include "ferrite/benchmarks/ledger/ledger.h"
#include "ferrite/benchmarks/program.h"
#include "ferrite/core/terminal.h"

namespace {

using namespace bench;
using nlohmann::json;
namespace terminal = ferrite::terminal;

json to_json(const Launch& l, const Gpu& gpu, bool half) {
  json result = {{"name", l.name},
                 {"grid", l.grid},
                 {"block", l.block},
                 {"read", l.read},
                 {"written", l.written},
                 {"flops", l.flops},
                 {"roofline_us", l.roofline_us(gpu, half)}};
  if (l.measured_us > 0) result["measured_us"] = l.measured_us;
  return result;
}

Launch of_json(const json& j) {
  return {.name = j.at("name"),
          .grid = j.at("grid"),
          .block = j.at("block"),
          .read = j.at("read"),
          .written = j.at("written"),
          .flops = j.at("flops")};
}

/// Sets the times that a GPU measured beside what the emulator counted.
std::vector<Launch> set_beside(std::vector<Launch> counted, const std::vector<Launch>& measured) {
  FERRITE_CHECK(counted.size() == measured.size(), ferrite::ValueError, "ledger",
                "{} launches were counted, {} measured", counted.size(), measured.size());
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i].measured_us = measured[i].measured_us;
  return counted;
}

void print(const std::vector<Launch>& launches, const Gpu& gpu, bool half) {
  terminal::Table table({{""},
                         {"launch", terminal::Align::left},
                         {"grid"},
                         {"block"},
                         {"read"},
                         {"written"},
                         {"GFLOP"},
                         {"roofline"},
                         {"measured"}});
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launch& l = launches[i];
    const bool kernel = l.grid[0] > 0;
    table.add({fmt::to_string(i + 1), l.name,
               kernel ? fmt::format("{}x{}x{}", l.grid[0], l.grid[1], l.grid[2]) : "",
               kernel ? fmt::to_string(l.block[0] * l.block[1] * l.block[2]) : "",
               fmt::to_string(l.read), fmt::to_string(l.written),
               fmt::format("{:.3f}", 1e-9 * static_cast<double>(l.flops)),
               fmt::format("{:.2f} us", l.roofline_us(gpu, half)),
               l.measured_us > 0 ? fmt::format("{:.2f} us", l.measured_us) : ""});
  }
  table.print();
}

json sums_of(const std::vector<Launch>& launches, const StepOptions& o, const Gpu& gpu, bool half,
             double launch_us) {
  double bytes = 0, flops = 0, roofline = 0, measured = 0;
  for (const Launch& l : launches) {
    bytes += static_cast<double>(l.bytes());
    flops += static_cast<double>(l.flops);
    roofline += l.roofline_us(gpu, half);
    measured += l.measured_us;
  }
  const auto images = static_cast<double>(o.batch), n = static_cast<double>(launches.size());
  json sums = {{"launches", launches.size()},
               {"bytes", bytes},
               {"megabytes_per_image", 1e-6 * bytes / images},
               {"gigaflop_per_image", 1e-9 * flops / images},
               {"roofline_ms", 1e-3 * roofline},
               {"launch_us", launch_us},
               {"launches_ms", 1e-3 * launch_us * n}};
  if (measured > 0) sums["measured_ms"] = 1e-3 * measured;
  return sums;
}

std::vector<Launch> count(StepOptions options, const std::vector<std::int64_t>& batches) {
  if (batches.empty()) return launches_of(options);
  FERRITE_CHECK(batches.size() == 2, ferrite::ValueError, "ledger",
                "--counted takes two batches, got {}", batches.size());
  const std::int64_t batch = options.batch;
  options.batch = batches[0];
  const std::vector<Launch> first = launches_of(options);
  options.batch = batches[1];
  return extend(first, batches[0], launches_of(options), batches[1], batch);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Lists the launches of a training step. On the emulator it counts what they read and write, "
      "for calls of libraries from their operands; on a GPU it measures their times.");
  StepOptions options;
  std::string gpu_name = kGpus[0].name, file, counts;
  std::vector<std::int64_t> counted;
  double launch_us = 2;
  std::vector<std::string> gpus;
  for (const Gpu& g : kGpus) gpus.emplace_back(g.name);
  const CLI::Range count_range(std::int64_t{1}, std::int64_t{1} << 20);
  app.option_defaults()->group("Step");
  app.add_option("--model", options.model, "the network")
      ->check(CLI::IsMember({"lenet5", "resnet18", "resnet50"}))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images")->check(count_range)->capture_default_str();
  app.add_option("--image-size", options.image_size, "pixels of a side")
      ->check(count_range)
      ->capture_default_str();
  app.add_option("--opt-level", options.opt_level, "O0 to O3")->capture_default_str();
  app.add_flag("--channels-last", options.channels_last, "NHWC");
  app.add_flag("--graph", options.graphed, "the step as one graph, whose nodes are listed");
  app.option_defaults()->group("Ledger");
  app.add_option("--counted", counted,
                 "two batches to count instead, from which the batch's figures follow")
      ->delimiter(',');
  app.add_option("--counts", counts, "on a GPU: JSON from the emulator, to set the times beside")
      ->check(CLI::ExistingFile);
  app.add_option("--gpu", gpu_name, "whose figures bound the times")
      ->check(CLI::IsMember(gpus))
      ->capture_default_str();
  app.add_option("--launch-us", launch_us, "what a launch is taken to cost at least")
      ->capture_default_str();
  app.add_option("--json", file, "writes everything there as well");
  return bench::run(app, argc, argv, [&] {
    const Gpu& gpu = *std::ranges::find(kGpus, gpu_name, [](const Gpu& g) { return g.name; });
    const bool half = options.opt_level != "O0";
    std::vector<Launch> launches = count(options, counted);
    if (!counts.empty()) {
      std::vector<Launch> known;
      for (const json& j : json::parse(std::ifstream(counts)).at("launches"))
        known.push_back(of_json(j));
      launches = set_beside(known, launches);
    }
    const json sums = sums_of(launches, options, gpu, half, launch_us);
    print(launches, gpu, half);
    fmt::print("\n{}\n{}: {}\n", sums.dump(2), gpu.name, gpu.source);
    if (file.empty()) return;
    json all = {{"model", options.model},
                {"batch", options.batch},
                {"image_size", options.image_size},
                {"opt_level", options.opt_level},
                {"channels_last", options.channels_last},
                {"graph", options.graphed},
                {"gpu", gpu.name},
                {"sums", sums}};
    for (const Launch& l : launches) all["launches"].push_back(to_json(l, gpu, half));
    std::ofstream(file) << all.dump(1) << '\n';
  });
}
