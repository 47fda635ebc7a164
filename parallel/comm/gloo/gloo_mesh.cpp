#include "parallel/comm/gloo/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"

namespace ferrite::parallel {

using Clock = std::chrono::steady_clock;

/// What ends the waits of the thread that runs an operation.
struct GlooMesh::Guard {
  const Interrupt* interrupt = nullptr;  // of that thread alone

  /// DistributedError where the operation is to end.
  Milliseconds left() const {
    if (interrupt == nullptr) return Milliseconds(1);
    interrupt->check();
    const auto left = std::chrono::ceil<Milliseconds>(interrupt->deadline - Clock::now());
    return std::max(left, Milliseconds(1));
  }
};

namespace {

/// A buffer of the TCP transport, whose waits are guarded.
class GuardedBuffer final : public gloo::transport::UnboundBuffer {
 public:
  GuardedBuffer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer,
                std::shared_ptr<GlooMesh::Guard> guard)
      : UnboundBuffer(buffer->ptr, buffer->size),
        buffer_(std::move(buffer)),
        guard_(std::move(guard)) {}

  bool waitRecv(int* rank, Milliseconds) override {
    return buffer_->waitRecv(rank, guard_->left());
  }
  bool waitSend(int* rank, Milliseconds) override {
    return buffer_->waitSend(rank, guard_->left());
  }
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  const std::shared_ptr<GlooMesh::Guard> guard_;
};

/// The TCP transport, with such buffers.
class GuardedTransport final : public gloo::transport::Context {
 public:
  GuardedTransport(std::shared_ptr<gloo::transport::Context> tcp,
                   std::shared_ptr<GlooMesh::Guard> guard)
      : Context(tcp->rank, tcp->size), tcp_(std::move(tcp)), guard_(std::move(guard)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override { return tcp_->getPair(rank); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    return tcp_->createPair(rank);
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      size_t size) override {
    return std::make_unique<GuardedBuffer>(tcp_->createUnboundBuffer(data, size), guard_);
  }

 private:
  const std::shared_ptr<gloo::transport::Context> tcp_;
  const std::shared_ptr<GlooMesh::Guard> guard_;
};

/// One a process and interface, as long as a group uses it: each has a thread.
std::shared_ptr<gloo::transport::Device> device(const Store& store) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<gloo::transport::Device>> devices;

  const char* const given = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string interface = given ? std::string(given, std::strcspn(given, ",")) : "";
  std::string host = store.local_host();
  if (host.empty()) host = "127.0.0.1";
  std::lock_guard lock(mutex);
  std::weak_ptr<gloo::transport::Device>& known =
      devices[interface.empty() ? host : "interface " + interface];
  if (auto device = known.lock()) return device;
  gloo::transport::tcp::attr attributes;
  (interface.empty() ? attributes.hostname : attributes.iface) =
      interface.empty() ? host : interface;
  std::shared_ptr<gloo::transport::Device> device;
  try {
    device = gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& e) {
    FERRITE_CHECK(interface.empty(), DistributedError, "gloo",
                  "there is no network interface that GLOO_SOCKET_IFNAME={} names: {}", given,
                  e.what());
    fail<DistributedError>("gloo",
                           "cannot listen at {}, by which the store is reached: {}; "
                           "GLOO_SOCKET_IFNAME names another interface",
                           host, e.what());
  }
  known = device;
  return device;
}

// ---- What a rank puts into the store: its note, and an address for each of the others.

void put(std::string& text, std::string_view part) {
  const auto length = static_cast<std::uint32_t>(part.size());
  text.append(reinterpret_cast<const char*>(&length), sizeof length).append(part);
}

std::string take(std::string_view& text) {
  std::uint32_t length = 0;
  FERRITE_CHECK(text.size() >= sizeof length, DistributedError, "gloo", "an address is cut short");
  std::memcpy(&length, text.data(), sizeof length);
  text.remove_prefix(sizeof length);
  FERRITE_CHECK(text.size() >= length, DistributedError, "gloo", "an address is cut short");
  std::string part(text.substr(0, length));
  text.remove_prefix(length);
  return part;
}

/// What the monitor tells while ranks connect.
struct Loss {
  std::mutex mutex;
  std::string reason;
  std::atomic<bool> known{false};

  void tell(const std::string& why) {
    std::lock_guard lock(mutex);
    reason = why;
    known = true;
  }
};

/// Store::get() that may be interrupted.
std::string wait_for(Store& store, const std::string& key, const Interrupt& interrupt) {
  constexpr Milliseconds kSlice{100};
  for (;;) {
    try {
      return store.get(key, kSlice);
    } catch (const DistributedError&) {
      interrupt.check();
      store.check({key});  // fails where it is the store that is lost
    }
  }
}

}  // namespace

GlooMesh::GlooMesh(int rank, int size)
    : gloo::Context(rank, size), guard_(std::make_shared<Guard>()) {}

GlooMesh::~GlooMesh() = default;

std::shared_ptr<GlooMesh> GlooMesh::connect(const GroupContext& context, const Note& note,
                                            std::vector<Note>& notes) {
  const std::shared_ptr<GlooMesh> mesh(new GlooMesh(context.rank, context.size));
  const auto loss = std::make_shared<Loss>();
  const Interrupt interrupt{"gloo", loss->known, Clock::now() + context.timeout};
  std::shared_ptr<gloo::transport::Device> tcp = device(*context.store);
  mesh->device_ = tcp;
  mesh->tcp_ = tcp->createContext(context.rank, context.size);
  // Gloo waits for a connection five times as long as it is told.
  mesh->tcp_->setTimeout(std::max(context.timeout / 5, Milliseconds(1)));
  for (int r = 0; r < context.size; ++r)
    if (r != context.rank) mesh->tcp_->createPair(r)->setLocalRank(0);
  mesh->transportContext_ = std::make_shared<GuardedTransport>(mesh->tcp_, mesh->guard_);

  const std::string& name = context.name;
  if (context.monitor)
    context.monitor->watch(name, [loss, mesh](const std::string& reason) {
      loss->tell(reason);
      mesh->cancel();
    });
  std::string error;
  try {
    mesh->exchange(context, note, notes, interrupt);
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (context.monitor) context.monitor->unwatch(name);
  std::lock_guard lock(loss->mutex);
  FERRITE_CHECK(!loss->known, DistributedError, "gloo", "group {} cannot connect: {}", name,
                loss->reason);
  if (!error.empty()) {
    const std::string blamed = context.monitor ? context.monitor->blame(name, 0) : "";
    fail<DistributedError>("gloo", "group {} cannot connect: {}{}{}", name, error,
                           blamed.empty() ? "" : "; ", blamed);
  }
  return mesh;
}

void GlooMesh::exchange(const GroupContext& context, const Note& note, std::vector<Note>& notes,
                        const Interrupt& interrupt) {
  std::string mine;
  put(mine, note);
  for (int r = 0; r < size; ++r) {
    if (r == rank) {
      put(mine, "");
      continue;
    }
    const std::vector<char> address = tcp_->getPair(r)->address().bytes();
    put(mine, {address.data(), address.size()});
  }
  const auto key = [](int r) { return fmt::format("gloo/{}", r); };
  context.store->set(key(rank), mine);

  notes.assign(static_cast<std::size_t>(size), note);
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    const int job_rank = context.job_ranks[static_cast<std::size_t>(r)];
    std::string theirs;
    try {
      theirs = wait_for(*context.store, key(r), interrupt);
      std::string_view rest(theirs);
      notes[static_cast<std::size_t>(r)] = take(rest);
      std::string address;
      for (int i = 0; i <= rank; ++i) address = take(rest);
      const std::unique_ptr<gloo::transport::Pair>& pair = tcp_->getPair(r);
      pair->connect(std::vector<char>(address.begin(), address.end()));
    } catch (const std::exception& e) {
      fail<DistributedError>("gloo", "no connection to rank {} within {} ms: {}", job_rank,
                             context.timeout.count(), e.what());
    }
  }
}

GlooMesh::Operation::Operation(GlooMesh& mesh, const Interrupt& interrupt) : mesh_(mesh) {
  mesh_.guard_->interrupt = &interrupt;
}
GlooMesh::Operation::~Operation() { mesh_.guard_->interrupt = nullptr; }

void GlooMesh::cancel() noexcept {
  // Gloo closes all connections of a context, and wakes all who wait, when one wait has timed out:
  // one for what nobody sends.
  try {
    char nothing = 0;
    tcp_->createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, Milliseconds(1));
  } catch (...) {
  }
}

}  // namespace ferrite::parallel
