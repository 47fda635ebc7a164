// Functions of from_dlpack() and to_dlpack() for Python's ctypes: tests/core/dlpack_torch.py.
#include <string>

#include "ferrite/core/dlpack.h"
#include "ferrite/core/error.h"
#include "ferrite/core/views.h"

namespace {

using namespace ferrite;

std::string last_error;
int live_tensors = 0;

/// Takes a tensor in and gives it out again, with something of its own between.
template <class Managed, class Export>
Managed* round_trip(Managed* managed, Export&& give) {
  try {
    const Tensor tensor = from_dlpack(managed);
    return give(tensor);
  } catch (const Error& error) {
    last_error = error.what();
    return nullptr;
  }
}

}  // namespace

extern "C" {

dlpack::ManagedTensor* ferrite_round_trip(dlpack::ManagedTensor* managed) {
  return round_trip(managed, [](const Tensor& t) { return to_dlpack(t); });
}

dlpack::ManagedTensorVersioned* ferrite_round_trip_versioned(
    dlpack::ManagedTensorVersioned* managed) {
  return round_trip(managed, [](const Tensor& t) { return to_dlpack_versioned(t); });
}

/// [2, 3] of 0 to 5, transposed, of memory whose end is counted.
dlpack::ManagedTensor* ferrite_numbers() {
  auto* const memory = new float[6]{0, 1, 2, 3, 4, 5};
  ++live_tensors;
  const Tensor tensor = from_blob(memory, {6}, kFloat32, [memory] {
    delete[] memory;
    --live_tensors;
  });
  return to_dlpack(geometry::as_strided(tensor, {3, 2}, {1, 3}, 0));
}

int ferrite_live_tensors() { return live_tensors; }
const char* ferrite_last_error() { return last_error.c_str(); }
}
