#include "ferrite/parallel/comm/bootstrap/tcp_store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/background_thread.h"
#include "ferrite/parallel/comm/bootstrap/monitor_table.h"
#include "ferrite/parallel/comm/bootstrap/store_protocol.h"
#include "ferrite/parallel/comm/bootstrap/store_table.h"
#include "ferrite/parallel/comm/links/sealed_frames.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Command;
using protocol::GreetingReply;
using protocol::kMaxMessage;
using protocol::Reader;
using protocol::Writer;

constexpr ClientId kListener = 0, kWaker = 1, kFirstClient = 2;
/// Unread output after which a client that does not read is dropped.
constexpr std::size_t kMaxUnread = 4 * kMaxMessage;
/// Interval of the search for clients that have stalled.
constexpr std::chrono::milliseconds kSweep{250};
/// The thread wakes at least every kSweep: a longer gap means it was stopped.
constexpr std::chrono::milliseconds kPauseThreshold{1000};
constexpr std::chrono::milliseconds kGoodbye{200};
constexpr int kAcceptedAtOnce = 64;

struct Client {
  links::Fd fd;
  bool stranger = true;
  std::unique_ptr<links::SealedChannel> channel;  ///< once the client is authenticated
  std::string nonce, their_nonce;                 ///< of the greeting, once it has begun
  bool to_drop = false;                           ///< to be dropped after its events are processed
  bool dropping = false;                          ///< to be dropped after it was told the reason
  bool wants_write = false;
  std::list<ClientId>::iterator place{};  ///< position in the list of strangers, if it is one
  std::string in, out;
  std::size_t sent = 0;     ///< part of `out` already sent
  TimePoint stalled_since;  ///< since when the rest of a message is missing
};

}  // namespace

class TcpStoreServer::Impl {
 public:
  explicit Impl(TcpStoreServerOptions options)
      : options_(std::move(options)),
        max_unauthenticated_(links::limited_by_descriptors(options_.max_strangers, 4)),
        listener_(links::listen_at({options_.host, options_.port})),
        address_{options_.host, links::local_address(listener_).port},
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        keys_(options_.max_bytes, sender()),
        monitor_(sender()) {
    FERRITE_CHECK(options_.token.size() <= protocol::kMaxToken, ValueError, "store",
                  "a token of at most {} bytes is expected, got {}", protocol::kMaxToken,
                  options_.token.size());
    if (!epoll_.valid() || !waker_.valid()) {
      throw std::system_error(errno, std::generic_category(), "cannot serve the store");
    }
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
    watch(EPOLL_CTL_ADD, waker_, EPOLLIN, kWaker);
    thread_ = comm::start_background_thread("ferrite-store", [this] { serve(); });
  }

  ~Impl() {
    stopping_ = true;
    const std::uint64_t one = 1;
    // Fails only if the eventfd counts to 2^64.
    if (write(waker_.get(), &one, sizeof one) < 0) stopping_ = true;
    thread_.join();
  }

  const links::Address& address() const { return address_; }
  std::size_t clients() const { return client_count_; }

  std::vector<PresentRank> present() const {
    const std::lock_guard lock(left_mutex_);
    return ranks_;
  }

  std::map<int, double> affected() const {
    const std::lock_guard lock(tables_mutex_);
    std::map<int, double> ranks;
    for (const auto& [rank, since] : monitor_.affected())
      ranks[rank] = std::chrono::duration<double>(Clock::now() - since).count();
    return ranks;
  }

  bool wait_until_left(std::chrono::milliseconds timeout) {
    std::unique_lock lock(left_mutex_);
    return left_.wait_for(lock, timeout, [this] { return present_ == 0; });
  }

 private:
  SendTo sender() {
    return [this](ClientId client, std::string message) { send_to(client, std::move(message)); };
  }

  void watch(int operation, const links::Fd& fd, std::uint32_t events, ClientId id) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    epoll_ctl(epoll_.get(), operation, fd.get(), &event);
  }

  void serve();
  void accept_some();
  bool drop_oldest_stranger();
  void read_from(ClientId id, Client& client);
  /// Processes the complete messages that have arrived. False if the client violates the protocol.
  bool consume(ClientId id, Client& client);
  bool greet(ClientId id, Client& client);
  void admit(Client& client);
  bool handle(ClientId id, std::string_view message);
  void send_to(ClientId id, std::string message);
  void flush(ClientId id, Client& client);
  void mark_to_drop(ClientId id, Client& client);
  void drop_marked();
  void sweep(TimePoint now);
  void close_gracefully();

  const TcpStoreServerOptions options_;
  const std::size_t max_unauthenticated_;
  links::Fd listener_;
  const links::Address address_;
  links::Fd epoll_, waker_;
  mutable std::mutex tables_mutex_;  ///< the thread holds it except while it waits for events
  StoreTable keys_;
  MonitorTable monitor_;
  std::unordered_map<ClientId, Client> clients_;
  std::vector<ClientId> to_drop_;
  ClientId next_id_ = kFirstClient;
  std::list<ClientId> strangers_;  ///< oldest first
  bool listening_ = true;          ///< false while no descriptors are available for more clients
  TimePoint now_{};

  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> client_count_ = 0;
  mutable std::mutex left_mutex_;
  std::condition_variable left_;
  std::size_t present_ = 0;
  std::vector<PresentRank> ranks_;
  std::thread thread_;
};

void TcpStoreServer::Impl::serve() {
  TimePoint next = Clock::now(), last_sweep = next;
  now_ = next;
  while (!stopping_) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    epoll_event events[64];
    const int count =
        epoll_wait(epoll_.get(), events, 64,
                   static_cast<int>(std::clamp<std::int64_t>(wait, 0, kSweep.count())));
    const std::lock_guard tables(tables_mutex_);
    const TimePoint before = std::exchange(now_, Clock::now());
    if (now_ - before > kPauseThreshold) monitor_.forgive(now_ - before);
    for (int i = 0; i < count; ++i) {
      const ClientId id = events[i].data.u64;
      if (id == kListener) accept_some();
      const auto found = clients_.find(id);
      if (found == clients_.end() || found->second.to_drop) continue;
      try {
        if (events[i].events & EPOLLOUT) flush(id, found->second);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_from(id, found->second);
      } catch (const std::exception&) {
        mark_to_drop(id, found->second);  // for which there is no memory, or no random number
      }
    }
    next = std::min(keys_.expire(now_), monitor_.tick(now_));
    if (now_ - last_sweep >= kSweep) {
      sweep(now_);
      last_sweep = now_;
      std::vector<PresentRank> ranks = monitor_.present_ranks(now_);
      const std::lock_guard lock(left_mutex_);
      ranks_ = std::move(ranks);
    }
    drop_marked();
    client_count_ = clients_.size();
    {
      const std::lock_guard lock(left_mutex_);
      present_ = monitor_.present();
    }
    left_.notify_all();
  }
  close_gracefully();
}

void TcpStoreServer::Impl::accept_some() {
  // A limited number at a time, so that accepted clients are served before they become too many.
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    links::Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // No descriptors or no memory. Drop a stranger; if there is none, the queue can wait until
      // the next sweep.
      if (drop_oldest_stranger()) continue;
      watch(EPOLL_CTL_MOD, listener_, 0, kListener);
      listening_ = false;
      return;
    }
    if (strangers_.size() >= max_unauthenticated_) drop_oldest_stranger();
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const ClientId id = next_id_++;
    Client& client = clients_[id];
    client.fd = std::move(fd);
    client.stalled_since = now_;
    client.place = strangers_.insert(strangers_.end(), id);
    watch(EPOLL_CTL_ADD, client.fd, EPOLLIN, id);
  }
}

/// A holder of the token proves itself within moments, so the stranger with the oldest connection
/// is dropped, not the new one. False if there is none. It has no entry in the tables yet.
bool TcpStoreServer::Impl::drop_oldest_stranger() {
  if (strangers_.empty()) return false;
  const ClientId id = strangers_.front();
  strangers_.pop_front();
  std::erase(to_drop_, id);
  clients_.erase(id);
  return true;
}

void TcpStoreServer::Impl::admit(Client& client) {
  client.stranger = false;
  client.stalled_since = now_;
  strangers_.erase(client.place);
}

void TcpStoreServer::Impl::read_from(ClientId id, Client& client) {
  char buffer[65536];
  // A limited amount at a time, so that one client cannot block the others.
  for (int i = 0; i < 8; ++i) {
    const ssize_t got = ::recv(client.fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return mark_to_drop(id, client);
    if (client.dropping) continue;
    if (!client.stranger) client.stalled_since = now_;  // a stranger has its time in all
    const std::string_view arrived(buffer, static_cast<std::size_t>(got));
    const bool whole = !client.channel || client.channel->open(arrived, client.in);
    if (!client.channel) client.in.append(arrived);
    if (!consume(id, client) || !whole) return mark_to_drop(id, client);
    if (client.to_drop) return;
  }
}

bool TcpStoreServer::Impl::consume(ClientId id, Client& client) {
  if (client.stranger) {
    if (!greet(id, client)) return false;
    if (client.stranger) return true;
    const std::string frames = std::exchange(client.in, {});
    if (!client.channel->open(frames, client.in)) return false;
  }
  std::size_t at = 0;
  while (client.in.size() - at >= 4) {
    const std::size_t size = protocol::message_size(std::string_view(client.in).substr(at));
    if (size == 0 || size > kMaxMessage) return false;
    if (client.in.size() - at - 4 < size) break;
    if (!handle(id, std::string_view(client.in).substr(at + 4, size))) return false;
    if (client.to_drop) return true;
    at += 4 + size;
    client.stalled_since = now_;
  }
  client.in.erase(0, at);
  return true;
}

bool TcpStoreServer::Impl::greet(ClientId id, Client& client) {
  if (client.nonce.empty()) {
    Reader head(client.in);
    for (const char expected : protocol::kMagic.substr(0, client.in.size())) {
      if (head.number<char>() != expected) return false;
    }
    if (client.in.size() < protocol::kHello) return true;
    client.dropping = head.number<std::uint32_t>() != protocol::kVersion;
    client.their_nonce = client.in.substr(protocol::kHello - protocol::kNonce, protocol::kNonce);
    client.in.erase(0, protocol::kHello);
    client.nonce = links::random_bytes(protocol::kNonce);
    send_to(id, protocol::hello(client.nonce));
  }
  if (client.dropping || client.in.size() < protocol::kProof) return true;

  const auto proof = [&](std::string_view whose) {
    return protocol::proof(options_.token, whose, client.their_nonce, client.nonce);
  };
  GreetingReply reply = GreetingReply::accepted;
  if (!links::equal_secrets(std::string_view(client.in).substr(0, protocol::kProof),
                            proof("client"))) {
    reply = GreetingReply::refused;
  } else if (clients_.size() - strangers_.size() >= options_.max_clients) {
    reply = GreetingReply::full;
  }
  client.in.erase(0, protocol::kProof);
  client.dropping = reply != GreetingReply::accepted;
  std::string answer(1, static_cast<char>(reply));
  answer += client.dropping ? std::string(protocol::kProof, '\0') : proof("server");
  send_to(id, std::move(answer));
  if (client.dropping) return true;
  const auto key = [&](std::string_view whose) {
    return protocol::frame_key(options_.token, whose, client.their_nonce, client.nonce);
  };
  client.channel = std::make_unique<links::SealedChannel>(key("server"), key("client"));
  admit(client);
  return true;
}

bool TcpStoreServer::Impl::handle(ClientId id, std::string_view bytes) {
  Reader message(bytes);
  const auto command = message.number<std::uint8_t>();
  if (StoreTable::is_command(command)) {
    // Not now_: the message can have come later, and its wait would end early.
    return keys_.handle(id, static_cast<Command>(command), message, Clock::now());
  }
  return MonitorTable::is_command(command) &&
         monitor_.handle(id, static_cast<Command>(command), message, now_);
}

void TcpStoreServer::Impl::send_to(ClientId id, std::string message) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.to_drop) return;
  Client& client = found->second;
  if (client.channel) message = client.channel->seal(message);
  if (client.out.empty()) {
    client.out = std::move(message);
  } else {
    client.out += message;
  }
  flush(id, client);
  if (client.out.size() - client.sent > kMaxUnread) mark_to_drop(id, client);
}

void TcpStoreServer::Impl::flush(ClientId id, Client& client) {
  while (client.sent < client.out.size()) {
    const ssize_t sent = send(client.fd.get(), client.out.data() + client.sent,
                              client.out.size() - client.sent, MSG_NOSIGNAL);
    if (sent > 0) {
      client.sent += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      if (client.dropping) return mark_to_drop(id, client);
      // It has gone. Its last messages, perhaps its goodbye, are still to be read, followed by the
      // end.
      client.sent = client.out.size();
    }
  }
  const bool all = client.sent == client.out.size();
  if (all) {
    client.out.clear();
    client.sent = 0;
    if (client.dropping) return mark_to_drop(id, client);
  }
  if (client.wants_write == all) {
    client.wants_write = !all;
    watch(EPOLL_CTL_MOD, client.fd, all ? EPOLLIN : EPOLLIN | EPOLLOUT, id);
  }
}

void TcpStoreServer::Impl::mark_to_drop(ClientId id, Client& client) {
  if (std::exchange(client.to_drop, true)) return;
  to_drop_.push_back(id);
}

void TcpStoreServer::Impl::drop_marked() {
  // The tables' reaction to a loss may mark others.
  while (!to_drop_.empty()) {
    const ClientId id = to_drop_.back();
    to_drop_.pop_back();
    const auto found = clients_.find(id);
    if (found->second.stranger) strangers_.erase(found->second.place);
    clients_.erase(found);
    keys_.disconnected(id);
    monitor_.disconnected(id, now_);
  }
}

void TcpStoreServer::Impl::sweep(TimePoint now) {
  for (auto& [id, client] : clients_) {
    const bool owes = client.stranger || !client.in.empty() || client.channel->within_frame();
    if (owes && now - client.stalled_since > options_.handshake_timeout) mark_to_drop(id, client);
  }
  if (!std::exchange(listening_, true)) watch(EPOLL_CTL_MOD, listener_, EPOLLIN, kListener);
}

/// Closing with unread bytes would discard what was sent: gives monitors a moment to read it and
/// close first.
void TcpStoreServer::Impl::close_gracefully() {
  monitor_.close();
  for (auto& [id, client] : clients_) shutdown(client.fd.get(), SHUT_WR);
  const TimePoint end = Clock::now() + kGoodbye;
  while (monitor_.present() > 0 && Clock::now() < end) {
    epoll_event events[64];
    const int count = epoll_wait(epoll_.get(), events, 64, 10);
    for (int i = 0; i < count; ++i) {
      const auto found = clients_.find(events[i].data.u64);
      char buffer[4096];
      if (found == clients_.end() || ::recv(found->second.fd.get(), buffer, sizeof buffer, 0) > 0) {
        continue;
      }
      monitor_.disconnected(found->first, now_);
      clients_.erase(found);
    }
  }
  clients_.clear();
  client_count_ = 0;
}

TcpStoreServer::TcpStoreServer(TcpStoreServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
TcpStoreServer::~TcpStoreServer() = default;
const links::Address& TcpStoreServer::address() const { return impl_->address(); }
bool TcpStoreServer::wait_until_left(std::chrono::milliseconds timeout) {
  return impl_->wait_until_left(timeout);
}
std::size_t TcpStoreServer::clients() const { return impl_->clients(); }
std::vector<PresentRank> TcpStoreServer::present() const { return impl_->present(); }
std::map<int, double> TcpStoreServer::affected() const { return impl_->affected(); }

}  // namespace ferrite::parallel::bootstrap
