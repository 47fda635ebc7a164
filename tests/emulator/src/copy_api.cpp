// Copies and fills.
#include <cstring>
#include <memory>
#include <vector>

#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/stream.h"

namespace emulator {

namespace {

/// Rows of `width` bytes, `pitch` apart; a plain range has one row.
struct Region {
  void* start;
  std::size_t pitch, width, height;

  std::size_t extent() const { return height ? (height - 1) * pitch + width : 0; }
  char* row(std::size_t i) const { return static_cast<char*>(start) + i * pitch; }
};

struct Place {
  bool device = false, page_locked = false, inside = true;
};

Place place_of(const Region& region) {
  const Allocation* const a = find_live(region.start);
  if (!a) return {in_device_range(region.start), false, !in_device_range(region.start)};
  const bool inside = a->contains(reinterpret_cast<std::uintptr_t>(region.start), region.extent());
  return {a->kind == Allocation::Kind::device, a->kind != Allocation::Kind::device, inside};
}

cudaError_t check_direction(cudaMemcpyKind kind, const Place& to, const Place& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to.device || from.device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice:
      return from.device || (!to.device && !to.page_locked) ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost:
      return to.device || (!from.device && !from.page_locked) ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      return (!to.device && !to.page_locked) || (!from.device && !from.page_locked)
                 ? cudaErrorInvalidValue
                 : cudaSuccess;
    case cudaMemcpyDefault:
      return cudaSuccess;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

void copy_rows(const Region& to, const Region& from) {
  const DeviceAccess access;
  for (std::size_t i = 0; i < to.height; ++i) {
    race_range(from.row(i), from.width, false);
    race_range(to.row(i), to.width, true);
    std::memmove(to.row(i), from.row(i), to.width);
  }
}

enum class Return { when_queued, when_done };

cudaError_t copy(const char* name, Region to, Region from, cudaMemcpyKind kind, cudaStream_t handle,
                 Return when) {
  return api(name, [&](HeldLock& lock) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (when == Return::when_done)
      for (const cudaError_t e : {check_use(*stream), check_unsafe()})
        if (e != cudaSuccess) return e;
    if (to.width == 0 || to.height == 0) return cudaSuccess;
    if (!to.start || !from.start || to.pitch < to.width || from.pitch < from.width)
      return cudaErrorInvalidValue;
    const Place target = place_of(to), source = place_of(from);
    if (!target.inside || !source.inside) return cudaErrorInvalidValue;
    if (const cudaError_t e = check_direction(kind, target, source); e != cudaSuccess) return e;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::copy;
    operation->name = name;
    // Pageable memory goes through a staging buffer: the source may be changed when the call
    // returns, and a copy to it is complete by then.
    const bool pageable_source = !source.device && !source.page_locked;
    const bool pageable_target = !target.device && !target.page_locked;
    if (when == Return::when_done || pageable_source || pageable_target) ++waits_so_far.copies;
    if (pageable_source && !pageable_target && !can_run_now(*stream) &&
        when == Return::when_queued) {
      auto staged = std::make_shared<std::vector<char>>(from.width * from.height);
      const Region copied{staged->data(), from.width, from.width, from.height};
      copy_rows(copied, from);
      operation->run = [to, copied, staged] { copy_rows(to, copied); };
    } else {
      operation->run = [to, from] { copy_rows(to, from); };
    }
    Ticket ticket;
    if (const cudaError_t e = issue(stream, std::move(operation), &ticket); e != cudaSuccess)
      return e;
    if (stream->capture) return cudaSuccess;
    if (when == Return::when_done || pageable_target) wait_for(ticket, lock);
    return sticky_error(stream->device);
  });
}

cudaError_t fill(const char* name, Region region, int value, cudaStream_t handle) {
  return api(name, [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (region.width == 0 || region.height == 0) return cudaSuccess;
    const Place place = place_of(region);
    if (region.pitch < region.width || !place.inside || (!place.device && !place.page_locked))
      return cudaErrorInvalidValue;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::set;
    operation->name = name;
    operation->run = [region, value] {
      const DeviceAccess access;
      for (std::size_t i = 0; i < region.height; ++i) {
        std::memset(region.row(i), value, region.width);
        race_range(region.row(i), region.width, true);
      }
    };
    return issue(stream, std::move(operation));
  });
}

Region range(const void* start, std::size_t bytes) {
  return {const_cast<void*>(start), bytes, bytes, 1};
}

cudaError_t copy_peer(const char* name, void* to, int to_device, const void* from, int from_device,
                      std::size_t bytes, cudaStream_t stream, Return when) {
  {
    const Lock lock;
    for (const int device : {to_device, from_device})
      if (device < 0 || device >= current_settings.devices) return remember(cudaErrorInvalidDevice);
    const Allocation *target = find_live(to), *source = find_live(from);
    if (bytes &&
        (!target || !source || target->device != to_device || source->device != from_device))
      return remember(cudaErrorInvalidValue);
  }
  return copy(name, range(to, bytes), range(from, bytes), cudaMemcpyDeviceToDevice, stream, when);
}

}  // namespace

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy("cudaMemcpy", range(to, bytes), range(from, bytes), kind, nullptr, Return::when_done);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy("cudaMemcpyAsync", range(to, bytes), range(from, bytes), kind, stream,
              Return::when_queued);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy("cudaMemcpy2D", {to, to_pitch, width, height},
              {const_cast<void*>(from), from_pitch, width, height}, kind, nullptr,
              Return::when_done);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy("cudaMemcpy2DAsync", {to, to_pitch, width, height},
              {const_cast<void*>(from), from_pitch, width, height}, kind, stream,
              Return::when_queued);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, stream,
                   Return::when_queued);
}
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  return copy_peer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, nullptr,
                   Return::when_done);
}

cudaError_t cudaMemset(void* start, int value, size_t bytes) {
  return fill("cudaMemset", range(start, bytes), value, nullptr);
}
cudaError_t cudaMemsetAsync(void* start, int value, size_t bytes, cudaStream_t stream) {
  return fill("cudaMemsetAsync", range(start, bytes), value, stream);
}
cudaError_t cudaMemset2D(void* start, size_t pitch, int value, size_t width, size_t height) {
  return fill("cudaMemset2D", {start, pitch, width, height}, value, nullptr);
}
cudaError_t cudaMemset2DAsync(void* start, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill("cudaMemset2DAsync", {start, pitch, width, height}, value, stream);
}

}  // extern "C"
