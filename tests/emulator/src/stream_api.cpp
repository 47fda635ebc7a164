// Streams and events.
#include <algorithm>
#include <memory>

#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/stream.h"

using namespace emulator;

namespace {

OperationPtr empty_operation() {
  static const OperationPtr empty = std::make_shared<Operation>();
  return empty;
}

/// Runs `body(stream, lock)` for the stream of a handle.
template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body body) {
  return api(name, [&](HeldLock& lock) {
    const StreamPtr stream = resolve(handle);
    return stream ? body(stream, lock) : cudaErrorInvalidResourceHandle;
  });
}
template <class Body>
cudaError_t with_event(const char* name, cudaEvent_t handle, Body body) {
  return api(name, [&](HeldLock& lock) {
    const std::shared_ptr<CUevent_st> event = resolve(handle);
    return event ? body(*event, lock) : cudaErrorInvalidResourceHandle;
  });
}

/// The host queries an event of a graph, which is recorded at each launch.
cudaError_t captured(const CUevent_st& event) {
  event.capture->invalid = true;
  return cudaErrorCapturedEvent;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return api("cudaStreamCreate", [&](HeldLock&) {
    if (!stream || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = create_stream(current_device(), flags, std::max(-5, std::min(0, priority))).get();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream("cudaStreamDestroy", handle, [](const StreamPtr& stream, HeldLock&) {
    if (stream->is_default) return cudaErrorInvalidResourceHandle;
    if (stream->capture) stream->capture->invalid = true;
    destroy_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream("cudaStreamSynchronize", handle, [](const StreamPtr& stream, HeldLock& lock) {
    ++waits_so_far.synchronizations;
    if (const cudaError_t error = check_wait(*stream); error != cudaSuccess) return error;
    wait_for_stream(stream, lock);
    return sticky_error(stream->device);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream("cudaStreamQuery", handle, [](const StreamPtr& stream, HeldLock& lock) {
    if (const cudaError_t error = check_wait(*stream); error != cudaSuccess) return error;
    if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return error;
    if (stream->idle()) {
      host_saw(end_of(stream));
      return sticky_error(stream->device);
    }
    nudge(stream, lock);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return with_stream("cudaStreamWaitEvent", handle, [&](const StreamPtr& stream, HeldLock&) {
    const auto event = resolve(event_handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_use(*stream); error != cudaSuccess) return error;
    if (stream->capture || event->capture) return capture_wait(stream, *event);
    if (!event->record) return cudaSuccess;
    const Ticket& ticket = event->record->ticket;
    if (ticket.reached())
      order_after(*stream, ticket);
    else
      enqueue(stream, empty_operation(), {ticket});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return with_stream("cudaLaunchHostFunc", handle, [&](const StreamPtr& stream, HeldLock&) {
    if (!function) return cudaErrorInvalidValue;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::host;
    operation->run = [function, data] { function(data); };
    return issue(stream, std::move(operation));
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return with_stream("cudaStreamAddCallback", handle, [&](const StreamPtr& stream, HeldLock&) {
    if (!callback || flags) return cudaErrorInvalidValue;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::host;
    operation->run = [=] { callback(handle, cudaSuccess, data); };
    if (stream->capture) return cudaErrorStreamCaptureUnsupported;
    return issue(stream, std::move(operation));
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream("cudaStreamGetFlags", handle, [&](const StreamPtr& stream, HeldLock&) {
    *flags = stream->flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream("cudaStreamGetPriority", handle, [&](const StreamPtr& stream, HeldLock&) {
    *priority = stream->priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream("cudaStreamGetDevice", handle, [&](const StreamPtr& stream, HeldLock&) {
    *device = stream->device;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return with_stream("cudaStreamGetId", handle, [&](const StreamPtr& stream, HeldLock&) {
    *id = stream->id;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api("cudaDeviceSynchronize", [](HeldLock& lock) {
    ++waits_so_far.synchronizations;
    if (const cudaError_t error = check_wait(current_device()); error != cudaSuccess) return error;
    wait_for_device(current_device(), lock);
    return sticky_error(current_device());
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api("cudaEventCreate", [&](HeldLock&) {
    constexpr unsigned kKnown =
        cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!event || (flags & ~kKnown)) return cudaErrorInvalidValue;
    *event = create_event(current_device(), flags);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return with_event("cudaEventDestroy", handle, [&](CUevent_st&, HeldLock&) {
    destroy_event(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned) {
  return with_event("cudaEventRecord", handle, [&](CUevent_st& event, HeldLock&) {
    const StreamPtr stream = resolve(stream_handle);
    if (!stream || stream->device != event.device) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_use(*stream); error != cudaSuccess) return error;
    event.capture = stream->capture;
    event.capture_tail = stream->capture_tail;
    event.record = nullptr;
    if (stream->capture) return cudaSuccess;
    auto record = std::make_shared<CUevent_st::Record>();
    if (stream->idle() && implicit_dependencies(*stream).empty()) {
      order_implicitly(*stream);
      record->ticket = end_of(stream);
      record->time = std::chrono::steady_clock::now();
    } else {
      auto operation = std::make_shared<Operation>();
      operation->kind = Operation::Kind::event;
      operation->run = [record] { record->time = std::chrono::steady_clock::now(); };
      record->ticket = enqueue(stream, std::move(operation));
    }
    event.record = std::move(record);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return with_event("cudaEventSynchronize", handle, [](CUevent_st& event, HeldLock& lock) {
    ++waits_so_far.synchronizations;
    if (event.capture) return captured(event);
    if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return error;
    if (event.record) {
      const Ticket ticket = event.record->ticket;  // the event may be recorded again in the
                                                   // meantime
      wait_for(ticket, lock);
    }
    return sticky_error(event.device);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_event("cudaEventQuery", handle, [](CUevent_st& event, HeldLock& lock) {
    if (event.capture) return captured(event);
    if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return error;
    if (!event.record) return sticky_error(event.device);
    const Ticket ticket = event.record->ticket;
    if (ticket.reached()) {
      host_saw(ticket);
      return sticky_error(event.device);
    }
    nudge(ticket.stream, lock);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return with_event("cudaEventElapsedTime", start, [&](CUevent_st& first, HeldLock&) {
    const auto second = resolve(end);
    if (!milliseconds) return cudaErrorInvalidValue;
    if (first.capture) return captured(first);
    if (second && second->capture) return captured(*second);
    if (!second || !first.record || !second->record) return cudaErrorInvalidResourceHandle;
    if ((first.flags | second->flags) & cudaEventDisableTiming)
      return cudaErrorInvalidResourceHandle;
    if (!first.record->ticket.reached() || !second->record->ticket.reached())
      return cudaErrorNotReady;
    *milliseconds =
        std::chrono::duration<float, std::milli>(second->record->time - first.record->time).count();
    return cudaSuccess;
  });
}

}  // extern "C"
