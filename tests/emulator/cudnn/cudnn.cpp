// The functions of cuDNN that Ferrite uses, on the host: it computes graphs of convolutions, matrix
// products, pointwise operations, reductions and reshapes as they are wired, in float32, rounding
// to the types of the tensors.
#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "ferrite/core/half.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#include "ferrite/tests/emulator/cudnn/convolution.h"
#include "ferrite/tests/emulator/cudnn/tensor.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using emulator::cudnn::for_each;
using emulator::cudnn::Four;
using emulator::cudnn::Handle;
using emulator::cudnn::Node;
using emulator::cudnn::Tensor;

Handle& node(cudnnBackendDescriptor_t raw) { return *static_cast<Handle*>(raw); }

bool has_wide_values(cudnnBackendAttributeType_t type) {
  return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR;
}

class Computation {
 public:
  Computation(const Node& graph, std::map<std::int64_t, void*> memory)
      : graph_(graph), memory_(std::move(memory)) {}

  void run() {
    for (const Handle& operation : graph_.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      const Node& o = *operation;
      switch (o.type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
          multiply(tensor(o.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                   tensor(o.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
                   tensor(o.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC)));
          break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
          reduce(o.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC).value(CUDNN_ATTR_REDUCTION_OPERATOR),
                 tensor(o.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
                 tensor(o.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC)));
          break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
          const Tensor& x = tensor(o.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
          Tensor& y = tensor(o.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
          for_each(y.sizes, [&](const Four& i) { y.at(i) = y.rounded(x.elements[y.place(i)]); });
          break;
        }
        case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
          emulator::cudnn::sums(tensor(o.part(CUDNN_ATTR_OPERATION_GENSTATS_XDESC)),
                                tensor(o.part(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC)),
                                tensor(o.part(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)));
          break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
          pointwise(o);
          break;
        default: {
          const emulator::cudnn::Convolution c(o);
          c.run(tensor(c.input()), tensor(c.weight()), tensor(c.out()));
        }
      }
    }
  }

 private:
  /// Operands are read where they first occur.
  Tensor& tensor(const Node& n) {
    const std::int64_t name = n.value(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
    Tensor t{{},
             {},
             static_cast<cudnnDataType_t>(n.value(CUDNN_ATTR_TENSOR_DATA_TYPE)),
             n.value(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0,
             nullptr,
             {}};
    std::ranges::copy(n.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS), t.sizes.begin());
    std::ranges::copy(n.values.at(CUDNN_ATTR_TENSOR_STRIDES), t.strides.begin());
    Four last = t.sizes;
    for (std::int64_t& size : last) --size;
    t.elements.resize(t.place(last) + 1, std::numeric_limits<float>::quiet_NaN());
    if (!t.is_virtual) {
      t.memory = memory_.at(name);
      for_each(t.sizes, [&](const Four& i) {
        const std::size_t at = t.place(i);
        t.elements[at] =
            t.type == CUDNN_DATA_HALF       ? float(static_cast<ferrite::Half*>(t.memory)[at])
            : t.type == CUDNN_DATA_BFLOAT16 ? float(static_cast<ferrite::BFloat16*>(t.memory)[at])
                                            : static_cast<float*>(t.memory)[at];
      });
    }
    return tensors_.emplace(name, std::move(t)).first->second;
  }

  /// What is not virtual is added to: cuDNN's engines add parts of such float32 results.
  static void multiply(const Tensor& a, const Tensor& b, Tensor& c) {
    const bool adds = !c.is_virtual && c.type == CUDNN_DATA_FLOAT;
    for_each(c.sizes, [&](const Four& i) {
      float sum = adds ? c.at(i) : 0;
      for (std::int64_t k = 0; k < a.sizes[3]; ++k)
        sum += a.at({i[0], i[1], i[2], k}, {c.sizes[0], c.sizes[1], c.sizes[2], a.sizes[3]}) *
               b.at({i[0], i[1], k, i[3]}, {c.sizes[0], c.sizes[1], a.sizes[3], c.sizes[3]});
      c.set(i, sum);
    });
  }

  static void reduce(std::int64_t how, const Tensor& x, Tensor& y) {
    const bool adds = how == CUDNN_REDUCE_TENSOR_ADD;
    if (!adds && how != CUDNN_REDUCE_TENSOR_MAX) throw std::runtime_error("another reduction");
    Tensor sums = y;
    std::ranges::fill(sums.elements, adds ? 0 : -std::numeric_limits<float>::infinity());
    for_each(x.sizes, [&](Four i) {
      const float value = x.at(i, x.sizes);
      for (std::size_t d = 0; d < 4; ++d) i[d] = i[d] * y.sizes[d] / x.sizes[d];
      float& to = sums.at(i);
      to = adds ? to + value : std::max(to, value);
    });
    for_each(y.sizes, [&](const Four& i) { y.set(i, sums.at(i)); });
  }

  void pointwise(const Node& o) {
    const Node& function = o.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto other = [&](int name) {
      const Node* const n = o.optional(name);
      return n ? &tensor(*n) : nullptr;
    };
    const Tensor& x = tensor(o.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const Tensor* const b = other(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Tensor* const t = other(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    Tensor& y = tensor(o.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const auto mode = function.value(CUDNN_ATTR_POINTWISE_MODE);
    for_each(y.sizes, [&](const Four& i) {
      const float left = x.at(i, y.sizes), right = b ? b->at(i, y.sizes) : 0;
      switch (mode) {
        case CUDNN_POINTWISE_IDENTITY:
          return y.set(i, left);
        case CUDNN_POINTWISE_ADD:
          return y.set(i, left + right);
        case CUDNN_POINTWISE_SUB:
          return y.set(i, left - right);
        case CUDNN_POINTWISE_MUL:
          return y.set(i, left * right);
        case CUDNN_POINTWISE_DIV:
          return y.set(i, left / right);
        case CUDNN_POINTWISE_RELU_FWD:  // NaN stays
          return y.set(i, left < 0 ? 0 : left);
        case CUDNN_POINTWISE_EXP:
          return y.set(i, std::exp(left));
        case CUDNN_POINTWISE_LOG:
          return y.set(i, std::log(left));
        case CUDNN_POINTWISE_CMP_GE:
          return y.set(i, left >= right ? 1 : 0);
        case CUDNN_POINTWISE_GEN_INDEX:
          return y.set(i, static_cast<float>(i.at(static_cast<std::size_t>(
                              function.value(CUDNN_ATTR_POINTWISE_AXIS)))));
        case CUDNN_POINTWISE_BINARY_SELECT:
          return y.set(i, t->at(i, y.sizes) != 0 ? left : right);
        default:
          throw std::runtime_error("another pointwise operation");
      }
    });
  }

  const Node& graph_;
  std::map<std::int64_t, void*> memory_;
  std::map<std::int64_t, Tensor> tensors_;
};

/// A convolution with statistics has plans for float16 alone, as on a GPU.
bool is_supported(const Node& graph) {
  const auto& all = graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  return std::ranges::all_of(all, [](const Handle& o) {
    return emulator::cudnn::Convolution::is_one(*o) ||
           o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
           o->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
           o->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR ||
           o->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           (o->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR &&
            o->part(CUDNN_ATTR_OPERATION_GENSTATS_XDESC).value(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
                CUDNN_DATA_HALF);
  });
}

/// The operands in memory of a graph's operations, and the number of its multiplications and
/// additions in products, as an entry for the ledger.
emulator::LedgerEntry entry_of(const Node& graph) {
  emulator::LedgerEntry entry;
  std::map<std::int64_t, bool> seen;
  for (const Handle& o : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const bool convolves = emulator::cudnn::Convolution::is_one(*o);
    const emulator::cudnn::Operands operands = emulator::cudnn::operands_of(*o);
    if (convolves) {
      const emulator::cudnn::Convolution c(*o);
      entry.name = c.name();
      entry.operations += c.operations();
      if (c.adds()) entry.read += emulator::cudnn::bytes_of(*operands.written.at(0));
    }
    for (const Node* t : operands.read)
      if (seen.emplace(t->value(CUDNN_ATTR_TENSOR_UNIQUE_ID), true).second)
        entry.read += emulator::cudnn::bytes_of(*t);
    for (const Node* t : operands.written)
      if (seen.emplace(t->value(CUDNN_ATTR_TENSOR_UNIQUE_ID), true).second)
        entry.written += emulator::cudnn::bytes_of(*t);
  }
  if (entry.name.empty()) entry.name = "cudnn graph";
  return entry;
}

/// Zeros for what the graph computes.
void clear_results(const Node& graph, const std::map<std::int64_t, void*>& memory) {
  for (const Handle& o : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    for (const Node* t : emulator::cudnn::operands_of(*o).written)
      if (t->value(CUDNN_ATTR_TENSOR_IS_VIRTUAL) == 0)
        std::memset(memory.at(t->value(CUDNN_ATTR_TENSOR_UNIQUE_ID)), 0,
                    emulator::cudnn::bytes_of(*t));
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
void cudnnGetLastErrorString(char* text, size_t bytes) {
  std::strncpy(text, "the emulator's cuDNN has no plan for this graph", bytes - 1);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* raw) {
  *raw = new Handle(new Node{type});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete static_cast<Handle*>(raw);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* from) {
  Node& n = *node(raw);
  if (n.finalized) return CUDNN_STATUS_BAD_PARAM;
  for (int64_t i = 0; i < count; ++i) {
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      const Handle& part = node(static_cast<cudnnBackendDescriptor_t const*>(from)[i]);
      if (!part->finalized) return CUDNN_STATUS_BAD_PARAM;
      n.parts[name].push_back(part);
    } else if (has_wide_values(type)) {
      n.values[name].push_back(static_cast<const std::int64_t*>(from)[i]);
    } else if (type == CUDNN_TYPE_BOOLEAN) {
      n.values[name].push_back(static_cast<const bool*>(from)[i]);
    } else {
      n.values[name].push_back(static_cast<const std::int32_t*>(from)[i]);
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  Node& n = *node(raw);
  n.finalized = true;
  return n.type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR || is_supported(n)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED;
}

/// One configuration of a graph, which is all that a plan refers to.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t most, int64_t* count,
                                       void* to) {
  const Node& n = *node(raw);
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = n.value(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A ? 1 : 0;
    if (*count == 0 || most == 0) return CUDNN_STATUS_SUCCESS;
    Node& configuration = *node(*static_cast<cudnnBackendDescriptor_t*>(to));
    configuration.parts = n.parts;
    configuration.finalized = true;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *count = 1;
    *static_cast<std::int64_t*>(to) = 64;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t operands) {
  const Node& pack = *node(operands);
  const auto& names = pack.values.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto& pointers = pack.values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto graph = node(plan)
                         ->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                         .parts.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                         .at(0);
  struct Call {
    Handle graph;
    std::map<std::int64_t, void*> memory;
    std::vector<std::unique_ptr<float>> numbers;
  };
  auto call = std::make_unique<Call>(graph);
  for (std::size_t i = 0; i < names.size(); ++i) {
    void* pointer = reinterpret_cast<void*>(pointers[i]);
    // Numbers of the host are what they are now, whenever the stream gets there.
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess)
      return CUDNN_STATUS_INTERNAL_ERROR;
    if (attributes.type != cudaMemoryTypeDevice)
      pointer = call->numbers.emplace_back(new float(*static_cast<float*>(pointer))).get();
    call->memory[names[i]] = pointer;
  }
  const auto run = [](void* data) {
    const Call& c = *static_cast<Call*>(data);
    emulator::enter_library_call(entry_of(*c.graph));
    if (emulator::libraries_compute())
      Computation(*c.graph, c.memory).run();
    else
      clear_results(*c.graph, c.memory);
  };
  if (cudaLaunchHostFunc(handle->stream, run, call.get()) != cudaSuccess)
    return CUDNN_STATUS_EXECUTION_FAILED;
  // Captured calls run again.
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Call>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(call));
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
