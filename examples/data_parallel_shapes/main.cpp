// Prints the part of a batch that each replica of a DataParallel model receives: the program of
// PyTorch's tutorial "Optional: Data Parallelism".
//
//   data_parallel_shapes --devices 4
//
// 30 rows over 4 devices are 8, 8, 8 and 6; the 10 of the last batch are 3, 3, 3 and 1.
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/training_options.h"

namespace {

using namespace ferrite;

constexpr std::int64_t kInputSize = 5, kOutputSize = 2;

/// Collects the lines of replicas, which run at the same time, in the order of their devices.
class Notes {
 public:
  void add(const Device& device, std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(device.index(), std::move(line));
  }
  void print() {
    std::ranges::sort(lines_);
    for (const auto& [device, line] : lines_) fmt::print("{}", line);
    lines_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<int, std::string>> lines_;
};

class Model : public nn::Cloneable<Model> {
 public:
  explicit Model(std::shared_ptr<Notes> notes) : notes_(std::move(notes)) {
    register_module("fc", fc_);
  }

  Tensor forward(const Tensor& input) override {
    const Tensor output = fc_(input);
    notes_->add(input.device(), fmt::format("\tIn Model: input size {} output size {}\n",
                                            input.shape(), output.shape()));
    return output;
  }

 private:
  nn::Linear fc_{kInputSize, kOutputSize};
  std::shared_ptr<Notes> notes_;  // shared by replicas
};

struct Options {
  int devices = 0;  // 0: all CUDA devices, or 4 virtual ones
  std::string device = "auto";
  std::int64_t batch_size = 30, samples = 100;
};

std::vector<Device> devices_of(const Options& o) {
  const bool cuda = o.device == "cuda" || (o.device == "auto" && cuda::is_available());
  const int count = o.devices > 0 ? o.devices : cuda ? std::max(1, cuda::device_count()) : 4;
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i)
    devices.emplace_back(cuda ? DeviceType::cuda : DeviceType::cpu, i);
  return devices;
}

int data_parallel_shapes(int argc, char** argv) {
  examples::CommandLine app(
      "Prints the part of a batch that each replica of a DataParallel model receives.",
      {"data_parallel_shapes --devices 4",
       "data_parallel_shapes --device cpu --devices 3 --batch-size 10"});
  Options o;
  app.topic("Devices");
  app.add_option("--devices", o.devices,
                 "number of devices (default all CUDA devices, or 4 virtual CPU devices)")
      .check(examples::whole(1, Device::kMaxIndex + 1));
  app.add_option("--device", o.device, "kind of devices; auto: cuda if available")
      .check(examples::one_of({"auto", "cpu", "cuda"}))
      .capture_default_str();
  app.topic("Data");
  app.add_option("--batch-size", o.batch_size, "rows per batch")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  app.add_option("--samples", o.samples, "rows in the data set")
      .check(examples::whole<std::int64_t>(1))
      .capture_default_str();
  if (const auto status = app.parse(argc, argv)) return *status;

  const std::vector<Device> devices = devices_of(o);
  const auto notes = std::make_shared<Notes>();
  Model model(notes);
  model.to(devices[0]);
  if (devices.size() > 1) fmt::print("Let's use {} devices!\n", devices.size());
  parallel::DataParallel dp(model, devices);

  data::DataLoader loader(data::TensorDataset(randn({o.samples, kInputSize}), zeros({o.samples})),
                          {.batch_size = o.batch_size, .shuffle = true});
  for (auto& [rows, labels] : loader) {
    const Tensor input = rows.to(devices[0]);
    const Tensor output = dp(input);
    notes->print();
    fmt::print("Outside: input size {} output_size {}\n", input.shape(), output.shape());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(data_parallel_shapes, argc, argv); }
