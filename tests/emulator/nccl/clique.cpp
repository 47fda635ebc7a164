#include "ferrite/tests/emulator/nccl/clique.h"

#include <algorithm>
#include <cstring>

#include "ferrite/tests/emulator/src/memory.h"

namespace emulator::nccl {

namespace {

const char* at(const void* p, std::size_t bytes) { return static_cast<const char*>(p) + bytes; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

/// Executes what all ranks have requested, in rank order.
void carry_out(const std::vector<PostedPtr>& ranks) {
  const DeviceAccess access;
  const Request first = ranks.front()->request;
  const std::size_t bytes = first.count * bytes_of(first.type);
  const auto root = static_cast<std::size_t>(first.peer);
  std::vector<const void*> in;
  for (const PostedPtr& p : ranks) in.push_back(p->request.in);
  // Inputs and outputs may be the same memory: outputs are written after all inputs are read.
  std::vector<char> result(
      bytes *
      (first.kind == Kind::all_gather || first.kind == Kind::reduce_scatter ? ranks.size() : 1));
  switch (first.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
      reduce(in, result.data(), first.count, first.type, first.op);
      break;
    case Kind::reduce_scatter:
      reduce(in, result.data(), first.count * ranks.size(), first.type, first.op);
      break;
    case Kind::all_gather:
      for (std::size_t r = 0; r < ranks.size(); ++r) copy(result.data() + r * bytes, in[r], bytes);
      break;
    case Kind::broadcast:
      copy(result.data(), in[root], bytes);
      break;
    case Kind::send:
    case Kind::recv:
      break;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    void* const out = ranks[r]->request.out;
    if (first.kind == Kind::reduce_scatter)
      copy(out, at(result.data(), r * bytes), bytes);
    else if (first.kind != Kind::reduce || r == root)
      copy(out, result.data(), result.size());
    ranks[r]->done = true;
  }
}

}  // namespace

std::size_t Request::in_bytes(int ranks) const {
  const std::size_t bytes = count * bytes_of(type);
  if (kind == Kind::recv) return 0;
  return kind == Kind::reduce_scatter ? bytes * static_cast<std::size_t>(ranks) : bytes;
}
std::size_t Request::out_bytes(int ranks) const {
  const std::size_t bytes = count * bytes_of(type);
  if (kind == Kind::send) return 0;
  return kind == Kind::all_gather ? bytes * static_cast<std::size_t>(ranks) : bytes;
}
bool Request::agrees_with(const Request& other) const {
  return kind == other.kind && count == other.count && type == other.type && op == other.op &&
         peer == other.peer;
}

bool Clique::is_complete() const {
  return std::none_of(devices.begin(), devices.end(), [](int device) { return device < 0; });
}

bool Clique::post(int rank, const PostedPtr& posted) {
  const int peer = posted->request.peer;
  switch (posted->request.kind) {
    case Kind::send:
      sends_[{rank, peer}].push_back(posted);
      return post_transfer(rank, peer);
    case Kind::recv:
      recvs_[{peer, rank}].push_back(posted);
      return post_transfer(peer, rank);
    default:
      return post_collective(rank, posted);
  }
}

bool Clique::post_collective(int rank, const PostedPtr& posted) {
  const std::uint64_t number = next_[static_cast<std::size_t>(rank)]++;
  Meeting& meeting = meetings_[number];
  meeting.by_rank[rank] = posted;
  if (meeting.by_rank.size() < devices.size()) return false;
  std::vector<PostedPtr> ranks;
  for (const auto& [r, p] : meeting.by_rank) ranks.push_back(p);
  const bool good = std::all_of(ranks.begin(), ranks.end(), [&](const PostedPtr& p) {
    return !p->withdrawn && p->request.agrees_with(posted->request);
  });
  if (good) carry_out(ranks);
  meetings_.erase(number);
  return good;
}

bool Clique::post_transfer(int from, int to) {
  std::deque<PostedPtr>&sends = sends_[{from, to}], &recvs = recvs_[{from, to}];
  if (sends.empty() || recvs.empty()) return false;
  const PostedPtr send = sends.front(), recv = recvs.front();
  const bool good = !send->withdrawn && !recv->withdrawn &&
                    send->request.count == recv->request.count &&
                    send->request.type == recv->request.type;
  if (!good) return false;  // they stay, and so does everything after them
  const DeviceAccess access;
  copy(recv->request.out, send->request.in, send->request.in_bytes(2));
  send->done = recv->done = true;
  sends.pop_front();
  recvs.pop_front();
  return true;
}

}  // namespace emulator::nccl
