// What the code of the documentation takes from the program around it; only declared, nothing is
// linked. context::page_PAGE is for docs/PAGE.md alone, context::page_tests_kit_README
// for tests/kit/README.md.
#pragma once

#include <ferrite/autograd/record.h>
#include <ferrite/ferrite.h>
#include <ferrite/nn/onnx/onnx.h>
#include <ferrite/tests/kit/kernel_case.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ferrite::kernels::cuda {}

namespace context {

using namespace ferrite;

struct Net : nn::Cloneable<Net> {
  Tensor forward(const Tensor& images) override;
};

extern nn::ResNet18 model;
extern data::SyntheticDigits train, test;
extern data::DataLoader<> loader;
extern optim::SGD sgd;
extern Tensor images, labels, x, y;
extern Device device;
extern std::vector<Device> devices;
extern int rank, world_size;
extern float accuracy;
extern std::int64_t steps;

namespace page_checkpoints {
extern optim::StepLR scheduler;
extern optim::GradScaler scaler;
extern optim::SGD& optimizer;
extern double best;
extern std::int64_t step;
}  // namespace page_checkpoints

namespace page_cuda {
extern Tensor batch, first_half;
void step(const Tensor& images);
}  // namespace page_cuda

namespace page_data {
struct Pair {
  Tensor image, mask;
};
}  // namespace page_data

namespace page_data_parallel {
extern parallel::DataParallel<nn::ResNet18> dp;
}  // namespace page_data_parallel

namespace page_distributed {
extern parallel::DistributedDataParallel<nn::ResNet18> ddp;
}  // namespace page_distributed

namespace page_distributed_training {
namespace mp = parallel;
namespace dist = parallel;
Device try_gpu(int rank);
void train(Device device);
extern metrics::DeviceAverageMeter loss;
extern metrics::Accuracy accuracy;
}  // namespace page_distributed_training

namespace page_examples {
extern nn::ResNet18& net;
}  // namespace page_examples

namespace page_kernels {
using namespace kernels;
using namespace kernels::cuda;
extern kit::KernelCase c;
extern kit::Operand out;
void forward(const Stream& stream, const View& out, const View& gate, const View& value);
void kernel_under_test(const Stream& stream, const kit::Side& at);
}  // namespace page_kernels

namespace page_metrics {
extern std::int64_t resumed_at, done;
std::pair<Tensor, Tensor> step(const Tensor& images, const Tensor& labels);
}  // namespace page_metrics

namespace page_onnx {
extern nn::ResNet18& net;
}  // namespace page_onnx

namespace page_optimizers {
extern std::vector<Tensor> backbone, head;
double train_epoch(nn::Module& net, data::DataLoader<>& loader);
}  // namespace page_optimizers

namespace page_process_groups {
using parallel::ProcessGroup;
using parallel::ReduceOp;
using parallel::Work;
}  // namespace page_process_groups

namespace page_profiling {
void train_step();
void train_step(const data::Batch& batch);
}  // namespace page_profiling

namespace page_tensor_parallel {
extern std::shared_ptr<parallel::ProcessGroup> group, world;
std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters);
}  // namespace page_tensor_parallel

namespace page_tensors {
extern Tensor signal, response;
extern std::int64_t i, j, k;
}  // namespace page_tensors

namespace page_tests_kit_README {
using kernels::View;
void swiglu(const Stream& stream, const View& out, const View& gate, const View& value);
}  // namespace page_tests_kit_README

}  // namespace context
