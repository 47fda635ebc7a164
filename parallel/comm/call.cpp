#include "ferrite/parallel/comm/call.h"

#include <fmt/format.h>

namespace ferrite::parallel::comm {

const char* name(Collective kind) {
  switch (kind) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::send:
      return "send";
    case Collective::recv:
      return "recv";
    case Collective::barrier:
      return "barrier";
    case Collective::ring_all_reduce:
      return "ring_all_reduce";
  }
  return "an unknown collective";  // received over the network
}

Signature signature(const Call& call, std::uint64_t sequence) {
  Signature s;
  s.kind = call.kind;
  s.op = call.op;
  s.peer = call.peer;
  s.sequence = sequence;
  const Tensor& t = call.in.defined() ? call.in : call.out;
  if (!t.defined()) return s;
  s.dtype = t.dtype();
  s.dims = static_cast<std::uint8_t>(t.dim());
  s.channels_last = t.is_contiguous() ? 0 : 1;
  for (int d = 0; d < t.dim(); ++d) s.sizes[d] = t.shape()[d];
  return s;
}

namespace {

std::string_view reduction(ReduceOp op) {
  return op <= ReduceOp::max ? name(op) : "an unknown reduction";
}

std::string what(const Signature& s, std::span<const int> names) {
  const bool named = s.peer >= 0 && static_cast<std::size_t>(s.peer) < names.size();
  const int peer = named ? names[static_cast<std::size_t>(s.peer)] : s.peer;
  switch (s.kind) {
    case Collective::broadcast:
      return fmt::format("{} from rank {}", name(s.kind), peer);
    case Collective::recv:
      return fmt::format("{} from rank {}", name(s.kind), peer);
    case Collective::send:
      return fmt::format("{} to rank {}", name(s.kind), peer);
    case Collective::reduce:
      return fmt::format("{}({}) to rank {}", name(s.kind), reduction(s.op), peer);
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::ring_all_reduce:
      return fmt::format("{}({})", name(s.kind), reduction(s.op));
    case Collective::all_gather:
    case Collective::barrier:
      break;
  }
  return name(s.kind);
}

}  // namespace

std::string describe(const Signature& s, std::span<const int> names) {
  if (s.kind == Collective::barrier) return what(s, names);
  const int dims = s.dims <= kMaxDims ? s.dims : 0;
  return fmt::format("{} of {}[{}]{}", what(s, names), name(s.dtype),
                     fmt::join(s.sizes, s.sizes + dims, ", "),
                     s.channels_last ? " in channels-last order" : "");
}

std::string describe(const Call& call, std::span<const int> names) {
  return describe(signature(call, 0), names);
}

}  // namespace ferrite::parallel::comm
