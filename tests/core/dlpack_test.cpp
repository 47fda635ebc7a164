#include "ferrite/core/dlpack.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/half.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// What another library would hand over: 2 x 3 of 0 to 5 behind two elements that are not its own.
struct Foreign {
  alignas(8) float data[8] = {-1, -1, 0, 1, 2, 3, 4, 5};
  std::int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  int deleted = 0;
  dlpack::ManagedTensor managed = {
      {data,
       {dlpack::DeviceType::cpu, 0},
       2,
       {dlpack::TypeCode::floating, 32, 1},
       shape,
       strides,
       8},
      this,
      [](dlpack::ManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; }};
  dlpack::TensorView& view() { return managed.dl_tensor; }
};

using Floats = std::vector<float>;

template <class E>
std::string refusal(const std::function<void(Foreign&)>& change) {
  Foreign foreign;
  change(foreign);
  const std::string text = message_of<E>([&] { from_dlpack(&foreign.managed); });
  CHECK(foreign.deleted == 0);  // it still belongs to the caller
  return text;
}

}  // namespace

TEST_CASE("dlpack: a foreign tensor is shared, and its deleter called once, with the last view") {
  Foreign foreign;
  {
    Tensor tensor = from_dlpack(&foreign.managed);
    CHECK(tensor.shape() == Shape{2, 3});
    CHECK(tensor.dtype() == kFloat32);
    CHECK(tensor.data_ptr() == foreign.data + 2);  // byte_offset
    CHECK(tensor.to_vector<float>() == Floats{0, 1, 2, 3, 4, 5});
    tensor.data<float>()[0] = 9;
    CHECK(foreign.data[2] == 9);
    const Tensor view = geometry::as_strided(tensor, {3}, {1}, 1);
    tensor = {};
    CHECK(foreign.deleted == 0);
    CHECK(view.to_vector<float>() == Floats{1, 2, 3});
  }
  CHECK(foreign.deleted == 1);
}

TEST_CASE("dlpack: strides, no strides, broadcast, scalars, empty tensors, no deleter") {
  const auto values = [](const std::function<void(Foreign&)>& change) {
    Foreign foreign;
    change(foreign);
    return from_dlpack(&foreign.managed).to_vector<float>();
  };
  CHECK(values([](Foreign& f) { f.view().strides = nullptr; }) == Floats{0, 1, 2, 3, 4, 5});
  CHECK(values([](Foreign& f) { f.strides[0] = 1, f.strides[1] = 2; }) == Floats{0, 2, 4, 1, 3, 5});
  CHECK(values([](Foreign& f) { f.strides[0] = 0; }) == Floats{0, 1, 2, 0, 1, 2});
  CHECK(values([](Foreign& f) { f.view().ndim = 0, f.view().shape = nullptr; }) == Floats{0});
  CHECK(values([](Foreign& f) { f.shape[0] = 0, f.view().data = nullptr; }).empty());
  CHECK(values([](Foreign& f) { f.managed.deleter = nullptr; }).size() == 6);
  CHECK(values([](Foreign& f) {
          f.view().device.device_type = dlpack::DeviceType::cuda_host;
        }).size() == 6);
}

TEST_CASE("dlpack: errors, after which the tensor belongs to the caller") {
  CHECK(contains(refusal<DTypeError>([](Foreign& f) { f.view().dtype.lanes = 4; }), "4 lanes"));
  CHECK(
      contains(refusal<DTypeError>([](Foreign& f) { f.view().dtype.bits = 8; }), "code 2, 8 bits"));
  CHECK(contains(refusal<DeviceError>([](Foreign& f) {
                   f.view().device.device_type = static_cast<dlpack::DeviceType>(8);
                 }),
                 "DLPack's type 8"));
  CHECK(contains(refusal<DeviceError>([](Foreign& f) {
                   f.view().device = {dlpack::DeviceType::cuda, 63};
                 }),
                 "cuda:63"));
  CHECK(contains(refusal<ShapeError>([](Foreign& f) { f.view().ndim = 9; }), "at most 8"));
  CHECK(contains(refusal<ShapeError>([](Foreign& f) { f.view().ndim = -1; }), "got -1"));
  CHECK(contains(refusal<ValueError>([](Foreign& f) { f.shape[1] = -3; }), "got -3"));
  CHECK(contains(refusal<ValueError>([](Foreign& f) { f.strides[1] = -1; }), "got -1"));
  CHECK(contains(refusal<ValueError>([](Foreign& f) { f.view().byte_offset = 6; }),
                 "at a multiple of 4 bytes"));
  CHECK(
      contains(refusal<ValueError>([](Foreign& f) { f.view().data = nullptr; }), "a null pointer"));
  CHECK(contains(refusal<ValueError>([](Foreign& f) { f.view().shape = nullptr; }), "is null"));
  for (const bool strides : {true, false})
    CHECK(contains(refusal<ShapeError>([&](Foreign& f) {
                     f.shape[0] = f.shape[1] = f.strides[0] = std::int64_t{1} << 40;
                     if (!strides) f.view().strides = nullptr;
                   }),
                   "63 bits"));
  CHECK_THROWS_AS(from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)), ValueError);
  CHECK_THROWS_AS(to_dlpack(Tensor()), ValueError);
}

TEST_CASE("dlpack: what is given out keeps the memory until its deleter is called") {
  bool freed = false;
  float memory[6] = {0, 1, 2, 3, 4, 5};
  Tensor tensor = from_blob(memory, {6}, kFloat32, [&freed] { freed = true; });
  dlpack::ManagedTensor* given = to_dlpack(geometry::as_strided(tensor, {2, 2}, {1, 3}, 1));
  tensor = {};
  CHECK_FALSE(freed);
  const dlpack::TensorView& view = given->dl_tensor;
  CHECK(view.data == memory + 1);
  CHECK(view.byte_offset == 0);
  CHECK(view.ndim == 2);
  CHECK(std::pair(view.shape[0], view.shape[1]) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(std::pair(view.strides[0], view.strides[1]) == std::pair<std::int64_t, std::int64_t>(1, 3));
  CHECK(view.device.device_type == dlpack::DeviceType::cpu);
  given->deleter(given);
  CHECK(freed);

  // Every type comes back.
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8,
                            kUInt8, kBool, kComplex64, kComplex128}) {
    CAPTURE(dtype);
    const Tensor t = empty({3, 2}, {.dtype = dtype});
    const Tensor back = from_dlpack(to_dlpack(t));
    CHECK(back.dtype() == dtype);
    CHECK(back.data_ptr() == t.data_ptr());
  }
}

TEST_CASE("dlpack: version 1 has flags, and other versions are not looked into") {
  const Tensor t = from_vector<float>({1, 2}, {2});
  dlpack::ManagedTensorVersioned* given = to_dlpack_versioned(t, dlpack::kReadOnly);
  CHECK(given->version.major == 1);
  CHECK(contains(message_of<ValueError>([&] { from_dlpack(given); }), "must not be written"));
  CHECK(from_dlpack(given, {.allow_read_only = true}).to_vector<float>() == Floats{1, 2});

  given = to_dlpack_versioned(t);
  CHECK(given->flags == 0);
  given->version = {2, 5};
  CHECK(contains(message_of<ValueError>([&] { from_dlpack(given); }), "got 2.5"));
  given->deleter(given);
}

TEST_CASE("dlpack: work queued on a virtual device is done when its tensor is given out") {
  const Device device("cpu:0");
  const Tensor t = empty({1}, {.dtype = kFloat32, .device = device});
  current_stream(device).enqueue([p = t.data<float>()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    *p = 5;
  });
  const Tensor host = from_dlpack(to_dlpack(t));
  CHECK(host.device().is_host());
  CHECK(*host.data<float>() == 5);
}

TEST_CASE("dlpack: PyTorch's and NumPy's tensors go through, and PyTorch takes ours") {
  const char* chosen = std::getenv("FERRITE_TORCH_PYTHON");
  const std::string python = chosen ? chosen : "build/torch/bin/python";
  if (std::system((python + " -c 'import torch, numpy' 2>/dev/null").c_str()) != 0) {
    MESSAGE("skipped: ", python, " has no PyTorch (FERRITE_TORCH_PYTHON names one that has)");
    return;
  }
  const std::string module = bin_dir() + "/dlpack_module.so";
  if (!std::filesystem::exists(module)) {
    MESSAGE("skipped: ", module, " is not built, because this is a build with sanitizers");
    return;
  }
  CHECK(std::system((python + " tests/core/dlpack_torch.py " + module).c_str()) == 0);
}
