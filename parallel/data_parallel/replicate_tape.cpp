#include "ferrite/parallel/data_parallel/replicate_tape.h"

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include "ferrite/autograd/record.h"
#include "ferrite/autograd/side_node.h"

namespace ferrite::parallel::dp {

namespace {

using autograd::Gradients;
using autograd::Needs;
using autograd::SideNode;

/// Streams of `device` on which gradients wait for those of other devices. With a single one, a
/// reduction would wait for the gradients that its device has meanwhile collected for the next one.
Stream side_stream(const Device& device, std::size_t turn) {
  if (default_stream(device).impl()->runs_inline) return default_stream(device);
  struct Streams {
    Device device;
    std::array<Stream, 2> streams;
  };
  static std::mutex mutex;
  static std::vector<Streams> all;
  std::lock_guard lock(mutex);
  auto it = std::ranges::find(all, device, &Streams::device);
  if (it == all.end()) {
    const auto create = [&] { return Stream::create(device, StreamPriority::high); };
    all.push_back({device, {create(), create()}});
    it = all.end() - 1;
  }
  return it->streams[turn % 2];
}

/// Passes in several threads may use one comm, which takes calls one at a time. They only queue
/// work.
std::mutex& turn_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Copies of tensors on the root on every other device; all are defined.
std::vector<std::vector<Tensor>> broadcast_list(const std::shared_ptr<DeviceComm>& comm,
                                                const std::vector<Tensor>& tensors) {
  std::vector<std::vector<Tensor>> copies = broadcast_in_turn(*comm, tensors);
  if (!autograd::recording(std::span<const Tensor>(tensors))) return copies;
  std::vector<Tensor> flat;
  for (const std::vector<Tensor>& list : copies) flat.insert(flat.end(), list.begin(), list.end());
  const std::size_t peers = copies.size(), count = tensors.size();
  // Its node belongs to the root.
  auto node = make_intrusive<SideNode>(
      current_stream(comm->devices()[0]), static_cast<std::uint32_t>(flat.size()),
      [comm, peers, count](Gradients& grads, Needs) {
        std::vector<std::vector<Tensor>> lists(peers);
        for (std::size_t i = 0; i < grads.size(); ++i)
          lists[i / count].push_back(std::move(grads[i]));
        Gradients result(count);
        std::ranges::move(reduce_lists(comm, std::move(lists)), result.begin());
        return result;
      });
  autograd::detail::link_inputs(*node, tensors);
  for (std::uint32_t i = 0; i < flat.size(); ++i) autograd::detail::link_output(flat[i], node, i);
  return copies;
}

/// Records a reduction on the tape. Its gradient goes to all summands.
void record_sums(const std::shared_ptr<DeviceComm>& comm, const std::vector<Tensor>& sums,
                 const std::vector<std::vector<Tensor>>& lists) {
  const std::size_t peers = lists.size();
  std::vector<Tensor> outs, inputs;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // device and sum of every input
  std::vector<Device> devices;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    for (std::size_t d = 0; d < peers; ++d) {
      if (!lists[d][i].defined()) continue;
      inputs.push_back(lists[d][i]);
      places.emplace_back(d, outs.size());
    }
    outs.push_back(sums[i]);
  }
  if (!autograd::recording(std::span<const Tensor>(inputs))) return;
  autograd::record_many(outs, "reduce_add", inputs, [comm, places](Gradients& grads, Needs) {
    std::vector<Tensor> defined;
    std::vector<std::size_t> position(grads.size());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      position[i] = defined.size();
      if (grads[i].defined()) defined.push_back(grads[i]);
    }
    const std::vector<std::vector<Tensor>> copies = broadcast_list(comm, defined);
    Gradients result(places.size());
    for (std::size_t k = 0; k < places.size(); ++k) {
      const auto [d, i] = places[k];
      if (grads[i].defined()) result[k] = copies[d][position[i]];
    }
    return result;
  });
}

/// The sums of a bucket, on its streams.
Gradients reduce_bucket(const std::shared_ptr<DeviceComm>& comm, Gradients& grads, Needs needs,
                        std::size_t count, std::size_t turn) {
  std::deque<StreamGuard> guards;
  std::vector<std::vector<Tensor>> lists(grads.size() / count);
  for (std::size_t d = 0; d < lists.size(); ++d) {
    const Stream stream = side_stream(comm->devices()[d + 1], turn);
    guards.emplace_back(stream);
    for (std::size_t i = 0; i < count; ++i)
      lists[d].push_back(needs[i] ? std::move(grads[d * count + i]) : Tensor());
  }
  Gradients sums(count);
  std::ranges::move(reduce_lists(comm, std::move(lists)), sums.begin());
  return sums;
}

}  // namespace

std::vector<std::vector<Tensor>> broadcast_in_turn(DeviceComm& comm,
                                                   std::span<const Tensor> tensors) {
  const std::lock_guard lock(turn_mutex());
  return comm.broadcast(tensors);
}

std::vector<Tensor> reduce_lists(const std::shared_ptr<DeviceComm>& comm,
                                 std::vector<std::vector<Tensor>> lists) {
  std::vector<Tensor> sums;
  {
    const std::lock_guard lock(turn_mutex());
    sums = comm->reduce_add(lists);
  }
  record_sums(comm, sums, lists);
  return sums;
}

void record_bucket(const std::shared_ptr<DeviceComm>& comm, std::span<const Tensor> parameters,
                   std::span<const std::vector<Tensor>> copies, std::size_t turn) {
  const std::size_t count = parameters.size();
  const auto outputs = static_cast<std::uint32_t>(count);
  auto sum = make_intrusive<SideNode>(side_stream(comm->devices()[0], turn),
                                      static_cast<std::uint32_t>(outputs * copies.size()),
                                      [comm, count, turn](Gradients& grads, Needs needs) {
                                        return reduce_bucket(comm, grads, needs, count, turn);
                                      });
  autograd::detail::link_inputs(*sum, parameters);
  for (std::size_t d = 0; d < copies.size(); ++d) {
    auto collect =
        make_intrusive<SideNode>(side_stream(comm->devices()[d + 1], turn), outputs,
                                 [](Gradients& grads, Needs) { return std::move(grads); });
    for (std::uint32_t i = 0; i < outputs; ++i) {
      collect->edges.push_back(
          {.node = sum, .leaf = {}, .output = static_cast<std::uint32_t>(d) * outputs + i});
      autograd::detail::link_output(copies[d][i], collect, i);
    }
  }
}

}  // namespace ferrite::parallel::dp
