// How much of a device's capability each kernel reaches: bytes and operations per second, relative
// to a copy and a product measured in the same run. A table and a JSON file; or, with --serve,
// Ferrite's side of compare.py.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "ferrite/benchmarks/kernels/measure.h"
#include "ferrite/benchmarks/program.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/version.h"

namespace {

using namespace ferrite;
using namespace ferrite::bench;

struct Options {
  std::string device = cuda::is_available() ? "cuda:0" : "cpu", only, json;
  std::vector<double> sizes{1, 16, 64, 256};
  std::vector<std::string> dtypes{"float32", "float16", "bfloat16"};
  std::int64_t batch = 64, product = 4096;
  int threads = 0;
  double cold = 256;
  bool serve = false;
  MeasureOptions measure;
};

/// The copy and the products used as references.
Spec reference_copy(const Options& options) {
  const double largest = *std::ranges::max_element(options.sizes);
  return {.family = "device",
          .op = "device_copy",
          .shape = {std::max<std::int64_t>(static_cast<std::int64_t>(largest * (1 << 20)) / 4, 1)}};
}
Spec reference_product(const Options& options, DType dtype) {
  return {.family = "device",
          .op = "linear",
          .shape = {options.product, options.product},
          .dtype = dtype,
          .outputs = options.product};
}

std::vector<DType> dtypes_of(const Options& options) {
  std::vector<DType> dtypes;
  for (const std::string& name : options.dtypes) dtypes.push_back(parse_dtype(name));
  return dtypes;
}

/// Everything to be measured, in the order of the table.
std::vector<Spec> wanted_specs(const Options& options) {
  const std::vector<DType> dtypes = dtypes_of(options);
  std::vector<Spec> specs;
  for (const Op& op : all_ops())
    for (const DType dtype : dtypes)
      for (const double mib : options.sizes) {
        if (!op.shape || std::ranges::find(op.dtypes, dtype) == op.dtypes.end()) continue;
        const double elements = mib * (1 << 20) / static_cast<double>(itemsize(dtype));
        const Shape shape =
            op.shape(std::max<std::int64_t>(static_cast<std::int64_t>(elements), 1));
        specs.push_back({.family = op.family, .op = op.name, .shape = shape, .dtype = dtype});
      }
  for (const Spec& layer : network_specs(options.batch))
    for (const DType dtype : dtypes) {
      specs.push_back(layer);
      specs.back().dtype = dtype;
    }
  const std::regex only(options.only);
  std::erase_if(specs,
                [&](const Spec& s) { return !std::regex_search(s.family + " " + s.str(), only); });
  return specs;
}

nlohmann::json about(const Options& options) {
  const Device device(options.device);
  nlohmann::json info{{"framework", "Ferrite"},
                      {"version", FERRITE_VERSION},
                      {"compiler", __VERSION__},
                      {"device", device.str()},
                      {"threads", num_threads()}};
  if (device.is_cuda()) {
    info["device_name"] = cuda::properties(device.index()).name;
    info["cuda"] = cuda::versions().runtime;
  }
  return info;
}

nlohmann::json result_of(const Measurement& m) {
  return {{"seconds", m.seconds}, {"bytes", m.bytes}, {"flops", m.flops}};
}

void serve(const Options& options) {
  const auto print = [](const nlohmann::json& json) { std::cout << json.dump() << std::endl; };
  nlohmann::json info = about(options);
  info["ready"] = true;
  info["cases"] = {to_json(reference_copy(options))};
  for (const DType dtype : dtypes_of(options))
    info["cases"].push_back(to_json(reference_product(options, dtype)));
  for (const Spec& spec : wanted_specs(options)) info["cases"].push_back(to_json(spec));
  print(info);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      print(result_of(measure(spec_from(nlohmann::json::parse(line)), Device(options.device),
                              options.measure)));
    } catch (const Error& error) {
      print({{"error", error.what()}});
    }
  }
}

class Report {
 public:
  explicit Report(const Options& options) : options_(options) { json_ = about(options); }

  /// Returns how many could not be measured.
  int run() {
    const Device device(options_.device);
    const Measurement copy = measure(reference_copy(options_), device, options_.measure);
    copy_ = copy.bytes / copy.seconds;
    json_["copy_bytes_per_second"] = copy_;
    fmt::print("{}: a copy moves {:.1f} GB/s", device, copy_ * 1e-9);
    for (const DType dtype : dtypes_of(options_)) {
      const Measurement m = measure(reference_product(options_, dtype), device, options_.measure);
      product_[dtype] = m.flops / m.seconds;
      json_["product_flops_per_second"][std::string(name(dtype))] = product_[dtype];
      fmt::print(", a {} product does {:.1f} GFLOP/s", dtype, product_[dtype] * 1e-9);
    }
    fmt::print(
        "\n\n| kernel | microseconds | GB/s | of copy | GFLOP/s | of product |\n"
        "| :-- | --: | --: | --: | --: | --: |\n");
    int failed = 0;
    for (const Spec& spec : wanted_specs(options_)) {
      try {
        row(spec, measure(spec, device, options_.measure));
      } catch (const Error& error) {
        ++failed;
        fmt::print("| {} | {} |||||\n", spec.str(), error.what());
        json_["failed"].push_back({{"name", spec.str()}, {"error", error.what()}});
      }
      std::fflush(stdout);
    }
    if (!options_.json.empty()) std::ofstream(options_.json) << json_.dump(2) << '\n';
    return failed;
  }

 private:
  void row(const Spec& spec, const Measurement& m) {
    nlohmann::json result = to_json(spec);
    result.update(result_of(m));
    const double rate = m.bytes / m.seconds;
    result["of_copy"] = rate / copy_;
    std::string flops = " | ";
    if (m.flops > 0) {
      const double of_product = m.flops / m.seconds / product_[spec.dtype];
      result["of_product"] = of_product;
      flops = fmt::format("{:.1f} | {:.0f} %", m.flops / m.seconds * 1e-9, of_product * 100);
    }
    json_["results"].push_back(result);
    fmt::print("| {} | {:.2f} | {:.1f} | {:.0f} % | {} |\n", spec.str(), m.seconds * 1e6,
               rate * 1e-9, rate / copy_ * 100, flops);
  }

  const Options& options_;
  nlohmann::json json_;
  double copy_ = 0;
  std::map<DType, double> product_;
};

int run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (!options.serve) return Report(options).run() == 0 ? 0 : 1;
  serve(options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures kernels against what the device can do");
  Options options;
  app.option_defaults()->group("Device");
  app.add_option("--device", options.device, "cpu, cuda or cuda:1 ...")->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: one per core")
      ->capture_default_str();
  app.option_defaults()->group("Kernels");
  app.add_option("--sizes", options.sizes, "MiB of the main input of kernels that take any shape")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--dtypes", options.dtypes, "of the operands")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--only", options.only,
                 "a regular expression that \"family name [shape] dtype\" must contain");
  app.add_option("--batch", options.batch,
                 "images of ResNet-18's layers; LeNet's have 8 times that")
      ->capture_default_str();
  app.add_option("--product", options.product, "rows and columns of the reference product")
      ->capture_default_str();
  app.option_defaults()->group("Measurement");
  app.add_option("--budget", options.measure.budget,
                 "seconds for each measurement; 0: one call, to see that it runs")
      ->capture_default_str();
  app.add_option("--cold", options.cold,
                 "MiB of copies of the operands to cycle through; 0: always the same ones")
      ->capture_default_str();
  app.add_option("--json", options.json, "also write the measurements to this file");
  app.add_flag("--serve", options.serve,
               "list the cases on stdout, then measure the one on every line of stdin");
  return ::bench::run(app, argc, argv, [&] {
    options.measure.cold_bytes = options.cold * (1 << 20);
    return run(options);
  });
}
