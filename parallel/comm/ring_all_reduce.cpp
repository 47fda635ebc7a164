#include "ferrite/parallel/comm/ring_all_reduce.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ferrite/parallel/comm/combination.h"

namespace ferrite::parallel::comm {

namespace {

using kernels::Combine;
using kernels::View;

// Amount a rank sends at a time: together with the received data, it stays in a core's L2 cache.
constexpr std::int64_t kSegmentBytes = std::int64_t{64} << 10;
// If a rank sends no more than this to all others together, the number of synchronizations
// dominates: one if each rank gets all values, and 2 (n - 1) in the ring.
constexpr std::int64_t kDirectBytes = std::int64_t{96} << 10;
constexpr int kDirectRanks = 32;

/// The data and the reduction.
struct Reduction {
  std::byte* data;
  std::int64_t numel;
  DType dtype;
  Combine op;
  double scale;  // applied to complete results
  bool wide;     // sums of 16-bit values are kept in float32

  std::int64_t item() const { return static_cast<std::int64_t>(itemsize(dtype)); }
  void combine(void* out, DType out_type, const void* a, DType a_type, const void* b,
               std::int64_t n, bool complete) const {
    kernels::combine(Stream(), op, flat_view(out, n, out_type), flat_view(a, n, a_type),
                     flat_view(b, n, dtype), complete ? scale : 1);
  }
};

// ---- Small: every rank gets all values of all ranks, and reduces them in rank order.

class Direct {
 public:
  Direct(links::LinkMesh& links, int rank, int size, const Reduction& reduction)
      : reduction_(reduction),
        bytes_(static_cast<std::size_t>(reduction.numel * reduction.item())),
        rank_(rank),
        size_(size),
        received_(bytes_ * static_cast<std::size_t>(size)) {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) peers_.push_back({&links.to(peer), peer, 0, 0});
  }

  void run(const links::Interrupt& interrupt) {
    while (true) {
      bool moved = false, complete = true;
      for (Peer& peer : peers_) {
        moved |= move(peer);
        complete = complete && peer.sent == bytes_ && peer.received == bytes_;
      }
      if (complete) break;
      if (!moved) wait(interrupt);
    }
    reduce();
  }

 private:
  struct Peer {
    links::Link* link;
    int rank;
    std::size_t sent, received;
  };

  std::byte* values_of(int rank) {
    return rank == rank_ ? reduction_.data
                         : received_.data() + bytes_ * static_cast<std::size_t>(rank);
  }

  bool move(Peer& peer) {
    const std::size_t before = peer.sent + peer.received;
    if (peer.sent < bytes_)
      peer.sent += peer.link->try_send({reduction_.data + peer.sent, bytes_ - peer.sent});
    if (peer.received < bytes_)
      peer.received +=
          peer.link->try_recv({values_of(peer.rank) + peer.received, bytes_ - peer.received});
    return peer.sent + peer.received > before;
  }

  void wait(const links::Interrupt& interrupt) {
    waits_.clear();
    for (const Peer& peer : peers_) {
      const links::Link::Interest interest{.send = peer.sent < bytes_,
                                           .recv = peer.received < bytes_};
      if (interest.send || interest.recv) waits_.push_back({peer.link, interest});
    }
    links::wait_any(waits_, interrupt);
  }

  void reduce() {
    const Reduction& r = reduction_;
    const DType partial = r.wide ? kFloat32 : r.dtype;
    sum_.resize(static_cast<std::size_t>(r.numel) * itemsize(partial));
    const void* a = values_of(0);
    DType type = r.dtype;
    for (int rank = 1; rank < size_; ++rank) {
      const bool complete = rank + 1 == size_;
      void* const out = complete ? r.data : sum_.data();
      const DType out_type = complete ? r.dtype : partial;
      r.combine(out, out_type, a, type, values_of(rank), r.numel, complete);
      a = out, type = out_type;
    }
  }

  const Reduction& reduction_;
  const std::size_t bytes_;
  const int rank_, size_;
  std::vector<std::byte> received_, sum_;
  std::vector<Peer> peers_;
  std::vector<links::Wait> waits_;
};

// ---- Large: the ring, one block of the values after another.
//
// A block is cut into one segment per rank, and takes 2 (n - 1) steps, in each of which a segment
// moves to the right. Blocks are pipelined: in slot t a rank sends step 0 of block t, step 1 of
// block t - 1, and so on. The data sent in a slot was received in the previous slot, so that both
// directions are always busy; it may be passed on, piece by piece, before all of it has arrived.

/// A unit of transfer from a rank to its neighbour, and its progress.
struct Item {
  std::int64_t slot = 0;
  int step = 0;
  std::int64_t done = 0;  // elements

  std::int64_t block() const { return slot - step; }
};

class Ring {
 public:
  Ring(links::LinkMesh& links, int rank, int size, const Reduction& reduction)
      : r_(reduction),
        left_(links.to((rank + size - 1) % size)),
        right_(links.to((rank + 1) % size)),
        rank_(rank),
        size_(size),
        steps_(2 * (size - 1)),
        segment_(std::min((r_.numel + size - 1) / size, kSegmentBytes / r_.item())),
        blocks_((r_.numel + segment_ * size - 1) / (segment_ * size)) {
    if (r_.wide && size > 2)
      partials_.resize(static_cast<std::size_t>(kKept * (size - 2) * segment_));
  }

  void run(const links::Interrupt& interrupt) {
    while (true) {
      const bool sent = send(), received = receive();
      if (over(sending_) && over(receiving_)) return;
      if (sent || received)
        interrupt.check();
      else
        links::wait_neighbours(left_, wants_to_receive_, have_, right_, wants_to_send_, interrupt);
    }
  }

 private:
  static constexpr std::int64_t kKept = 3;

  bool over(const Item& item) const { return item.slot >= blocks_ + steps_ - 1; }
  bool reduces(int step) const { return step < size_ - 1; }

  void advance(Item& item) const {
    item.done = 0;
    do {
      if (++item.step == steps_) ++item.slot, item.step = 0;
    } while (!over(item) && (item.block() < 0 || item.block() >= blocks_));
  }

  // ---- Where an item's values are stored: in a segment of its block, of the rank that sends it
  struct Place {
    std::int64_t first, count;  // elements
  };
  Place place(const Item& item, int sender) const {
    const int turns = reduces(item.step) ? item.step : item.step - size_;
    const int segment = ((sender - turns) % size_ + size_) % size_;
    const std::int64_t first = item.block() * segment_ * size_;
    const std::int64_t length = std::min(segment_ * size_, r_.numel - first);
    const std::int64_t begin = length * segment / size_, end = length * (segment + 1) / size_;
    return {first + begin, end - begin};
  }
  std::byte* values(std::int64_t at) const { return r_.data + at * r_.item(); }
  /// The type in which a step's values are transferred: step 0 sends a rank's own values.
  DType travels_as(int step) const {
    return r_.wide && step > 0 && reduces(step) ? kFloat32 : r_.dtype;
  }
  /// Storage of partial sums that do not fit into the tensor. One step's sums are sent while the
  /// next step's may have arrived and the one after is being received.
  float* partials(std::int64_t block, int step) {
    return partials_.data() + (kKept * (step - 1) + block % kKept) * segment_;
  }

  /// How much of the data to send is available.
  std::int64_t available(const Place& place) const {
    if (sending_.step == 0) return place.count;
    const std::int64_t slot = sending_.slot - 1;
    const int step = sending_.step - 1;
    if (receiving_.slot != slot) return receiving_.slot > slot ? place.count : 0;
    if (receiving_.step != step) return receiving_.step > step ? place.count : 0;
    return receiving_.done;
  }

  bool send() {
    if (over(sending_)) return false;
    const Place at = place(sending_, rank_);
    const DType type = travels_as(sending_.step);
    const auto item = static_cast<std::int64_t>(itemsize(type));
    const std::byte* const from = reinterpret_cast<const std::byte*>(
        type == r_.dtype ? static_cast<const void*>(values(at.first))
                         : partials(sending_.block(), sending_.step));
    const std::int64_t bytes = available(at) * item - sent_bytes_;
    const std::size_t sent =
        bytes == 0 ? 0 : right_.try_send({from + sent_bytes_, static_cast<std::size_t>(bytes)});
    sent_bytes_ += static_cast<std::int64_t>(sent);
    wants_to_send_ = static_cast<std::int64_t>(sent) < bytes;
    if (sent_bytes_ < at.count * item) return sent > 0;
    sent_bytes_ = 0;
    advance(sending_);
    return true;
  }

  bool receive() {
    have_ = 0;
    wants_to_receive_ = !over(receiving_) && receiving_.slot <= sending_.slot + 1;
    if (!wants_to_receive_) return false;
    const Place at = place(receiving_, (rank_ + size_ - 1) % size_);
    const bool moved = reduces(receiving_.step) ? reduce(at) : copy(at);
    if (receiving_.done < at.count) return moved;
    advance(receiving_);
    return true;
  }

  bool reduce(const Place& at) {
    const int step = receiving_.step;
    const DType type = travels_as(step);
    const std::span<const std::byte> there =
        receiving_.done < at.count ? left_.received() : std::span<const std::byte>();
    const std::int64_t n = std::min(at.count - receiving_.done,
                                    static_cast<std::int64_t>(there.size() / itemsize(type)));
    if (n == 0) {
      have_ = there.size();
      return false;
    }
    std::byte* const own = values(at.first + receiving_.done);
    const bool complete = step == size_ - 2;
    const bool apart = r_.wide && !complete;
    void* const out =
        apart ? static_cast<void*>(partials(receiving_.block(), step + 1) + receiving_.done) : own;
    r_.combine(out, apart ? kFloat32 : r_.dtype, there.data(), type, own, n, complete);
    left_.consume(static_cast<std::size_t>(n) * itemsize(type));
    receiving_.done += n;
    return true;
  }

  bool copy(const Place& at) {
    const std::int64_t begin = receiving_.done * r_.item() + copied_;
    const std::int64_t left = at.count * r_.item() - begin;
    if (left == 0) return false;
    const std::size_t n =
        left_.try_recv({values(at.first) + begin, static_cast<std::size_t>(left)});
    copied_ += static_cast<std::int64_t>(n);
    receiving_.done += copied_ / r_.item();
    copied_ %= r_.item();
    return n > 0;
  }

  const Reduction& r_;
  links::Link& left_;
  links::Link& right_;
  const int rank_, size_, steps_;
  const std::int64_t segment_, blocks_;
  Item sending_, receiving_;
  std::int64_t sent_bytes_ = 0;  // of the item being sent
  std::int64_t copied_ = 0;      // of the element being received
  bool wants_to_send_ = false, wants_to_receive_ = false;
  std::size_t have_ = 0;  // received bytes that do not complete an element yet
  std::vector<float> partials_;
};

}  // namespace

void ring_all_reduce(links::LinkMesh& links, int rank, int size, void* data, std::int64_t numel,
                     DType dtype, ReduceOp op, const links::Interrupt& interrupt) {
  FERRITE_CHECK(dtype != kBool, DTypeError, interrupt.op, "does not work on {}", dtype);
  FERRITE_CHECK(op != ReduceOp::avg || is_floating(dtype), DTypeError, interrupt.op,
                "expected a floating type for an average, got {}", dtype);
  if (size == 1 || numel == 0) return;
  const bool half = dtype == kFloat16 || dtype == kBFloat16;
  const Reduction reduction{.data = static_cast<std::byte*>(data),
                            .numel = numel,
                            .dtype = dtype,
                            .op = combine_of(op),
                            .scale = op == ReduceOp::avg ? 1.0 / size : 1,
                            .wide = half && op != ReduceOp::min && op != ReduceOp::max};
  if (size <= kDirectRanks && numel * reduction.item() * (size - 1) <= kDirectBytes)
    Direct(links, rank, size, reduction).run(interrupt);
  else
    Ring(links, rank, size, reduction).run(interrupt);
}

}  // namespace ferrite::parallel::comm
