// Process groups using Gloo's algorithms over Ferrite's links, and Ferrite's own ring where that is
// faster.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/half.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/combination.h"
#include "ferrite/parallel/comm/gloo/gloo_mesh.h"
#include "ferrite/parallel/comm/host_group.h"
#include "ferrite/parallel/comm/links/exchange.h"
#include "ferrite/parallel/comm/ring_all_reduce.h"

namespace ferrite::parallel {

namespace {

// ---- Reductions

/// 16-bit values are added and multiplied in float32, and rounded once at the end.
bool is_wide(DType dtype, ReduceOp op) {
  return is_floating(dtype) && itemsize(dtype) == 2 && op != ReduceOp::min && op != ReduceOp::max;
}

void widen(float* out, const void* in, std::int64_t n, DType dtype) {
  dispatch_types<Half, BFloat16>(dtype, "gloo", [&]<class T>() {
    const T* const values = static_cast<const T*>(in);
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(values[i]);
  });
}

void narrow(void* out, const float* in, std::int64_t n, DType dtype, float scale) {
  dispatch_types<Half, BFloat16>(dtype, "gloo", [&]<class T>() {
    T* const values = static_cast<T*>(out);
    for (std::int64_t i = 0; i < n; ++i) values[i] = T(in[i] * scale);
  });
}

void scale_values(void* data, std::int64_t n, DType dtype, double scale) {
  dispatch_types<float, double>(dtype, "gloo", [&]<class T>() {
    T* const values = static_cast<T*>(data);
    for (std::int64_t i = 0; i < n; ++i) values[i] *= static_cast<T>(scale);
  });
}

/// Calls f with a type of this size: Gloo needs no other property of elements.
template <class F>
void with_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t());
    case 2:
      return f(std::uint16_t());
    case 4:
      return f(std::uint32_t());
    default:
      return f(std::uint64_t());
  }
}

auto reduction(ReduceOp op, DType dtype) {
  return [op = comm::combine_of(op), dtype](void* out, const void* a, const void* b,
                                            std::size_t count) {
    const auto n = static_cast<std::int64_t>(count);
    kernels::combine(Stream(), op, comm::flat_view(out, n, dtype), comm::flat_view(a, n, dtype),
                     comm::flat_view(b, n, dtype));
  };
}

// ---- Which all-reduce

constexpr const char* kVariable = "FERRITE_GLOO_ALL_REDUCE";

/// "auto", "gloo" or "ring".
std::string wanted_all_reduce() {
  const char* const given = std::getenv(kVariable);
  const std::string wanted = given != nullptr && *given != '\0' ? given : "auto";
  FERRITE_CHECK(wanted == "auto" || wanted == "gloo" || wanted == "ring", ValueError, "gloo",
                "{} must be auto, gloo or ring, got {}", kVariable, wanted);
  return wanted;
}

/// Compares what the ranks have published: which all-reduce each chooses or requires.
bool agree_on_ring(const GroupContext& context, const std::vector<std::string>& notes) {
  const auto wanted = [](const std::string& note) { return note.substr(0, note.find(' ')); };
  bool shared_memory = true;
  for (std::size_t r = 0; r < notes.size(); ++r) {
    FERRITE_CHECK(wanted(notes[r]) == wanted(notes[0]), ValueError, "gloo",
                  "{} must be the same on all ranks: it is {} on rank {}, and {} on rank {}",
                  kVariable, wanted(notes[0]), context.job_rank(0), wanted(notes[r]),
                  context.job_rank(static_cast<int>(r)));
    shared_memory &= notes[r].ends_with(" shared");
  }
  return wanted(notes[0]) == "ring" || (wanted(notes[0]) == "auto" && shared_memory);
}

bool all_in_shared_memory(links::LinkMesh& links, int rank, int size) {
  for (int r = 0; r < size; ++r)
    if (r != rank && links.to(r).kind() != "shared memory") return false;
  return true;
}

// ---- The group

/// The connections of a group of more than one rank.
struct Connections {
  std::unique_ptr<links::LinkMesh> peers;  // of send and recv
  // For collectives: the comparison before each, and then Gloo's algorithms or the ring.
  std::unique_ptr<links::LinkMesh> collectives;
  bool use_ring = false;
};

class GlooGroup final : public HostGroup {
 public:
  GlooGroup(const GroupContext& context, Connections connections)
      : HostGroup("gloo", context, std::move(connections.peers),
                  // A waiting thread may run the ring, which avoids a switch to the worker thread.
                  {.staging = comm::Staging::host,
                   .waiters = connections.use_ring ? comm::Waiters::help : comm::Waiters::wait}),
        links_(std::move(connections.collectives)),
        gloo_(links_ ? std::make_shared<gloo::GlooMesh>(*links_, context.rank, context.size)
                     : nullptr),
        use_ring_(connections.use_ring) {
    start_watching();
  }
  ~GlooGroup() override { stop(); }

 private:
  void run(const comm::HostCall& call) override;
  void cancel() override;
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                             const std::string& name,
                                             Milliseconds timeout) override;

  void run_alone(const comm::HostCall& call);
  void run_by_gloo(const comm::HostCall& call);
  template <class F>
  void reduce_by(const comm::HostCall& call, bool is_root, F&& run);
  void all_reduce(const comm::HostCall& call);
  void broadcast(const comm::HostCall& call);
  void reduce(const comm::HostCall& call);
  void all_gather(const comm::HostCall& call);
  void reduce_scatter(const comm::HostCall& call);
  void barrier(const comm::HostCall& call);
  double scale(ReduceOp op) const { return op == ReduceOp::avg ? 1.0 / size() : 1; }

  const std::unique_ptr<links::LinkMesh> links_;
  const std::shared_ptr<gloo::GlooMesh> gloo_;
  const bool use_ring_;
};

void GlooGroup::run(const comm::HostCall& call) {
  if (size() == 1) return run_alone(call);
  check_same_call(*links_, context(), call);
  const comm::Call& what = call.call;
  const bool is_barrier = what.kind == comm::Collective::barrier;
  if (!is_barrier && what.out.numel() == 0 && (!what.in.defined() || what.in.numel() == 0)) return;
  if (what.kind == comm::Collective::ring_all_reduce ||
      (use_ring_ && what.kind == comm::Collective::all_reduce)) {
    parallel::comm::ring_all_reduce(*links_, rank(), size(), call.out, what.out.numel(),
                                    what.out.dtype(), what.op, call.interrupt);
  } else if (use_ring_ && is_barrier) {
    std::uint8_t nothing = 0;
    parallel::comm::ring_all_reduce(*links_, rank(), size(), &nothing, 1, kUInt8, ReduceOp::sum,
                                    call.interrupt);
  } else {
    run_by_gloo(call);
  }
}

void GlooGroup::run_alone(const comm::HostCall& call) {
  const comm::Call& what = call.call;
  if (what.in.defined() && what.out.numel() > 0) std::memcpy(call.out, call.in, what.out.nbytes());
}

void GlooGroup::run_by_gloo(const comm::HostCall& call) {
  const gloo::GlooMesh::Operation operation(*gloo_, call.interrupt);
  switch (call.call.kind) {
    case comm::Collective::all_reduce:
      return all_reduce(call);
    case comm::Collective::broadcast:
      return broadcast(call);
    case comm::Collective::reduce:
      return reduce(call);
    case comm::Collective::all_gather:
      return all_gather(call);
    case comm::Collective::reduce_scatter:
      return reduce_scatter(call);
    default:
      return barrier(call);
  }
}

void GlooGroup::cancel() {
  if (links_) links_->close();
}

std::shared_ptr<ProcessGroup> GlooGroup::do_new_group(const std::vector<int>& ranks, int rank,
                                                      const std::string& name,
                                                      Milliseconds timeout) {
  return make_gloo_group(context_of_some(context(), ranks, rank, name, timeout));
}

// ---- Collectives

/// Makes `run(values, numel, dtype)` reduce a call's values in place, in the type used for adding.
template <class F>
void GlooGroup::reduce_by(const comm::HostCall& call, bool is_root, F&& run) {
  const Tensor& tensor = call.call.out;
  const ReduceOp op = call.call.op;
  const std::int64_t n = tensor.numel();
  if (is_wide(tensor.dtype(), op)) {
    const Tensor sums = empty({n}, {.dtype = kFloat32, .device = kCPU});
    widen(sums.data<float>(), call.out, n, tensor.dtype());
    run(sums.data<float>(), n, kFloat32);
    if (is_root)
      narrow(call.out, sums.data<float>(), n, tensor.dtype(), static_cast<float>(scale(op)));
    return;
  }
  run(call.out, n, tensor.dtype());
  if (is_root && op == ReduceOp::avg) scale_values(call.out, n, tensor.dtype(), scale(op));
}

void GlooGroup::all_reduce(const comm::HostCall& call) {
  reduce_by(call, true, [&](void* values, std::int64_t n, DType dtype) {
    ::gloo::AllreduceOptions options(gloo_);
    options.setReduceFunction(reduction(call.call.op, dtype));
    with_size(itemsize(dtype), [&](auto element) {
      options.setOutput(static_cast<decltype(element)*>(values), static_cast<std::size_t>(n));
    });
    ::gloo::allreduce(options);
  });
}

void GlooGroup::reduce(const comm::HostCall& call) {
  reduce_by(call, rank() == call.call.peer, [&](void* values, std::int64_t n, DType dtype) {
    ::gloo::ReduceOptions options(gloo_);
    options.setReduceFunction(reduction(call.call.op, dtype));
    options.setRoot(call.call.peer);
    with_size(itemsize(dtype), [&](auto element) {
      options.setOutput(static_cast<decltype(element)*>(values), static_cast<std::size_t>(n));
    });
    ::gloo::reduce(options);
  });
}

void GlooGroup::broadcast(const comm::HostCall& call) {
  ::gloo::BroadcastOptions options(gloo_);
  options.setRoot(call.call.peer);
  options.setOutput(static_cast<std::uint8_t*>(call.out), call.call.out.nbytes());
  ::gloo::broadcast(options);
}

void GlooGroup::all_gather(const comm::HostCall& call) {
  ::gloo::AllgatherOptions options(gloo_);
  options.setInput(static_cast<std::uint8_t*>(const_cast<void*>(call.in)), call.call.in.nbytes());
  options.setOutput(static_cast<std::uint8_t*>(call.out), call.call.out.nbytes());
  ::gloo::allgather(options);
}

/// Gloo only has an outdated implementation. Each rank receives all ranks' values of its part,
/// which moves as many bytes as the optimum, and reduces them in rank order.
void GlooGroup::reduce_scatter(const comm::HostCall& call) {
  const Tensor& tensor = call.call.out;
  const ReduceOp op = call.call.op;
  const DType dtype = tensor.dtype();
  const std::int64_t n = tensor.numel();
  const std::size_t bytes = tensor.nbytes();
  const Tensor parts = empty({n * size()}, {.dtype = dtype, .device = kCPU});
  auto* const received = static_cast<std::uint8_t*>(parts.data_ptr());
  ::gloo::AlltoallOptions options(gloo_);
  const std::size_t all = bytes * static_cast<std::size_t>(size());
  options.setInput(static_cast<std::uint8_t*>(const_cast<void*>(call.in)), all);
  options.setOutput(received, all);
  ::gloo::alltoall(options);

  const DType partial = is_wide(dtype, op) ? kFloat32 : dtype;
  const Tensor sums = partial == dtype ? tensor : empty({n}, {.dtype = partial, .device = kCPU});
  void* const kept = partial == dtype ? call.out : sums.data_ptr();
  const void* a = received;
  DType type = dtype;
  for (int r = 1; r < size(); ++r) {
    const bool complete = r + 1 == size();
    void* const out = complete ? call.out : kept;
    const DType out_type = complete ? dtype : partial;
    kernels::combine(Stream(), comm::combine_of(op), comm::flat_view(out, n, out_type),
                     comm::flat_view(a, n, type),
                     comm::flat_view(received + bytes * static_cast<std::size_t>(r), n, dtype),
                     complete ? scale(op) : 1);
    a = out;
    type = out_type;
  }
}

void GlooGroup::barrier(const comm::HostCall&) {
  ::gloo::BarrierOptions options(gloo_);
  ::gloo::barrier(options);
}

}  // namespace

// ---- Making one

bool has_gloo() { return true; }

std::shared_ptr<ProcessGroup> make_gloo_group(const GroupContext& context) {
  const std::string wanted = wanted_all_reduce();
  Connections connections;
  if (context.size > 1) {
    connections.peers = links::connect_links(context, "peers");
    connections.collectives = links::connect_links(context, "collectives");
    const bool shared = all_in_shared_memory(*connections.collectives, context.rank, context.size);
    connections.use_ring = agree_on_ring(
        context, links::exchange(context, "gloo", wanted + (shared ? " shared" : " tcp")));
  }
  return std::make_shared<GlooGroup>(context, std::move(connections));
}

}  // namespace ferrite::parallel
