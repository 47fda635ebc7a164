#include "ferrite/parallel/comm/bootstrap/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <thread>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Answer;
using protocol::Command;
using protocol::Reader;
using protocol::Writer;
using std::chrono::milliseconds;

/// Limit of one greeting: the listener may be another program, which waits for us to speak.
constexpr milliseconds kGreetingTime{3000};
/// Extra time for the server beyond the requested wait.
constexpr milliseconds kStoreGrace{2000};

links::Deadline after(milliseconds timeout) {
  return Clock::now() + links::limited(std::max(timeout, milliseconds(0)));
}

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Connection greet(const links::Address& address, std::string_view token, links::Deadline deadline) {
  deadline = std::min(deadline, Clock::now() + kGreetingTime);
  Connection connection;
  std::string error;
  links::Fd fd = links::connect_to(address, deadline, error);
  if (!fd.valid()) {
    connection.detail = fmt::format("nothing answers at {} ({})", address.text(), error);
    return connection;
  }
  const std::string nonce = links::random_bytes(protocol::kNonce);
  std::string theirs(protocol::kHello, '\0'), reply(protocol::kReply, '\0');
  const auto exchange = [&](std::string_view bytes, std::string& answer) {
    return links::send_all(fd, bytes, deadline) &&
           links::recv_all(fd, answer.data(), answer.size(), deadline);
  };
  connection.greeting = Greeting::stranger;
  if (!exchange(protocol::hello(nonce), theirs) || !theirs.starts_with(protocol::kMagic)) {
    connection.detail = fmt::format(
        "the process listening at {} is not a Ferrite store, or is too busy", address.text());
    return connection;
  }
  Reader hello(std::string_view(theirs).substr(protocol::kMagic.size()));
  const auto version = hello.number<std::uint32_t>();
  const std::string_view their_nonce =
      std::string_view(theirs).substr(theirs.size() - protocol::kNonce);
  if (version != protocol::kVersion) {
    connection.greeting = Greeting::other_version;
    connection.detail =
        fmt::format("the store at {} speaks version {} of the protocol, we speak {}",
                    address.text(), version, protocol::kVersion);
    return connection;
  }
  if (!exchange(protocol::proof(token, "client", nonce, their_nonce), reply)) {
    connection.detail = fmt::format("the store at {} hung up, or is too busy", address.text());
    return connection;
  }
  switch (static_cast<protocol::GreetingReply>(reply.front())) {
    case protocol::GreetingReply::accepted:
      if (!links::equal_secrets(std::string_view(reply).substr(1),
                                protocol::proof(token, "server", nonce, their_nonce))) {
        connection.detail =
            fmt::format("the process listening at {} claims to know our token, but cannot prove it",
                        address.text());
        break;
      }
      connection.fd = std::move(fd);
      connection.channel = std::make_unique<links::SealedChannel>(
          protocol::frame_key(token, "client", nonce, their_nonce),
          protocol::frame_key(token, "server", nonce, their_nonce));
      connection.secret = links::derive(token, {"ferrite ranks"});
      connection.greeting = Greeting::accepted;
      break;
    case protocol::GreetingReply::full:
      connection.greeting = Greeting::full;
      connection.detail = fmt::format("the store at {} accepts no more clients", address.text());
      break;
    default:
      connection.greeting = Greeting::refused;
      connection.detail = fmt::format(
          "the store at {} belongs to another job, or another start of it (it refuses our token)",
          address.text());
  }
  return connection;
}

Connection greet_until_accepted(const links::Address& address, std::string_view token,
                                milliseconds timeout) {
  const links::Deadline deadline = after(timeout);
  milliseconds pause{10};
  for (;;) {
    Connection connection = greet(address, token, deadline);
    if (connection.greeting == Greeting::accepted) return connection;
    FERRITE_CHECK(Clock::now() + pause < deadline, DistributedError, "store",
                  "there is no store after {:.1f} s: {}", seconds(timeout), connection.detail);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, milliseconds(250));
  }
}

// ---- One connection with many pending requests: one of the waiting threads reads for all.

template <class Rest>
TcpStore::Reply TcpStore::request(Command command, milliseconds timeout, const char* op,
                                  const std::string& asked, const Rest& rest) {
  const links::Deadline deadline = after(timeout);
  std::uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lost_) fail_lost(op, asked);
    id = next_id_++;
    replies_[id];
  }
  try {
    Writer message(command);
    message.number(id);
    rest(message);
    send(message.take(), deadline, op, asked);
    return wait_for(id, deadline, timeout, op, asked);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    replies_.erase(id);
    throw;
  }
}

void TcpStore::send(const std::string& message, links::Deadline deadline, const char* op,
                    const std::string& asked) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [this] { return !sending_ || lost_; }) || lost_) {
    fail_lost(op, asked);
  }
  sending_ = true;
  lock.unlock();
  const bool sent = links::send_all(fd_, channel_->seal(message), deadline);
  lock.lock();
  sending_ = false;
  // Half a message may have been sent: nothing can follow it.
  if (!sent) lost_ = true;
  changed_.notify_all();
  if (!sent) fail_lost(op, asked);
}

void TcpStore::fail_lost(const char* op, const std::string& asked) const {
  FERRITE_CHECK(!changed_on_way_, DistributedError, op,
                "{}: what came from the store at {} is not what it sent: bytes were changed, left "
                "out or repeated on the way",
                asked, address_.text());
  fail<DistributedError>(op, "{}: the store at {} was lost", asked, address_.text());
}

TcpStore::Reply TcpStore::wait_for(std::uint32_t id, links::Deadline deadline, milliseconds timeout,
                                   const char* op, const std::string& asked) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<Reply>& reply = replies_[id];
    if (reply) {
      Reply out = std::move(*reply);
      replies_.erase(id);
      return out;
    }
    if (lost_) fail_lost(op, asked);
    FERRITE_CHECK(Clock::now() < deadline, DistributedError, op,
                  "{}: the store at {} does not answer within {:.1f} s", asked, address_.text(),
                  seconds(timeout));
    if (reading_) {
      changed_.wait_until(lock, deadline);
    } else {
      read(lock, deadline);
    }
  }
}

void TcpStore::read(std::unique_lock<std::mutex>& lock, links::Deadline deadline) {
  reading_ = true;
  lock.unlock();
  std::array<char, 65536> buffer;
  ssize_t got = -1;
  bool end = false;
  if (links::wait_ready(fd_.get(), POLLIN, deadline)) {
    got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    end = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }
  lock.lock();
  reading_ = false;
  if (end) lost_ = true;
  if (got > 0) {
    changed_on_way_ = !channel_->open({buffer.data(), static_cast<std::size_t>(got)}, in_);
    take_replies();
    if (changed_on_way_) lost_ = true;
  }
  // Even if nothing came: another thread must read now.
  changed_.notify_all();
}

void TcpStore::take_replies() {
  std::size_t at = 0;
  while (in_.size() - at >= 4 && !lost_) {
    const std::size_t size = protocol::message_size(std::string_view(in_).substr(at));
    if (size > protocol::kMaxMessage) lost_ = true;
    if (lost_ || in_.size() - at - 4 < size) break;
    Reader message(std::string_view(in_).substr(at + 4, size));
    const auto answer = message.number<Answer>();
    const auto found = replies_.find(message.number<std::uint32_t>());
    const std::string_view value =
        answer == Answer::done ? message.text(protocol::kMaxValue) : std::string_view();
    if (!message.ended()) lost_ = true;
    // Replies to abandoned requests are dropped.
    if (found != replies_.end()) found->second = Reply{answer, std::string(value)};
    at += 4 + size;
  }
  in_.erase(0, at);
}

// ---- The store

namespace {

void check_sizes(const char* op, const std::string& key, std::string_view value = {}) {
  FERRITE_CHECK(key.size() <= protocol::kMaxKey, ValueError, op,
                "a key of at most {} bytes is expected, got {}", protocol::kMaxKey, key.size());
  FERRITE_CHECK(value.size() <= protocol::kMaxValue, ValueError, op,
                "a value of at most {} bytes is expected, got {} for \"{}\"", protocol::kMaxValue,
                value.size(), key);
}

}  // namespace

TcpStore::TcpStore(const links::Address& address, std::string_view token, milliseconds timeout)
    : TcpStore(greet_until_accepted(address, token, timeout), address, timeout) {}

TcpStore::TcpStore(Connection connection, const links::Address& address, milliseconds timeout)
    : fd_(std::move(connection.fd)),
      channel_(std::move(connection.channel)),
      secret_(std::move(connection.secret)),
      address_(address),
      timeout_(timeout) {}

std::string TcpStore::local_host() const { return links::local_address(fd_).host; }

bool TcpStore::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void TcpStore::set(const std::string& key, std::string_view value) {
  check_sizes("store.set", key, value);
  const auto reply = request(Command::set, timeout_, "store.set", fmt::format("set of \"{}\"", key),
                             [&](Writer& message) { message.text(key).text(value); });
  FERRITE_CHECK(reply.answer != Answer::store_full, DistributedError, "store.set",
                "set of \"{}\": the store at {} has no room for {} bytes", key, address_.text(),
                value.size());
}

std::string TcpStore::get(const std::string& key, milliseconds timeout) {
  check_sizes("store.get", key);
  timeout = links::limited(std::max(timeout, milliseconds(0)));
  auto reply = request(Command::get, timeout + kStoreGrace, "store.get",
                       fmt::format("get of \"{}\"", key), [&](Writer& message) {
                         message.text(key).number(static_cast<std::uint64_t>(timeout.count()));
                       });
  FERRITE_CHECK(reply.answer == Answer::done, DistributedError, "store.get",
                "get of \"{}\": it was not set at {} within {:.1f} s", key, address_.text(),
                seconds(timeout));
  return std::move(reply.value);
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  check_sizes("store.add", key);
  const auto reply = request(Command::add, timeout_, "store.add", fmt::format("add to \"{}\"", key),
                             [&](Writer& message) { message.text(key).number(amount); });
  FERRITE_CHECK(reply.answer != Answer::not_a_number, DistributedError, "store.add",
                "add to \"{}\": what it holds is no number", key);
  std::int64_t sum = 0;
  const char* end = reply.value.data() + reply.value.size();
  FERRITE_CHECK(reply.answer == Answer::done &&
                    std::from_chars(reply.value.data(), end, sum).ec == std::errc(),
                DistributedError, "store.add", "add to \"{}\": the store at {} has no room", key,
                address_.text());
  return sum;
}

std::vector<std::string> TcpStore::missing(const std::vector<std::string>& keys) {
  std::size_t size = 0;
  for (const std::string& key : keys) {
    check_sizes("store.check", key);
    size += key.size() + 4;
  }
  FERRITE_CHECK(size <= protocol::kMaxValue, ValueError, "store.check",
                "keys of at most {} bytes are expected, got {}", protocol::kMaxValue, size);
  if (keys.empty()) return {};
  const auto reply = request(Command::missing, timeout_, "store.check",
                             fmt::format("check of \"{}\" and {} others", keys[0], keys.size() - 1),
                             [&](Writer& message) {
                               message.number(static_cast<std::uint32_t>(keys.size()));
                               for (const std::string& key : keys) message.text(key);
                             });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(keys.size(), reply.value.size()); ++i) {
    if (reply.value[i]) out.push_back(keys[i]);
  }
  return out;
}

bool TcpStore::check(const std::vector<std::string>& keys) { return missing(keys).empty(); }

bool TcpStore::erase(const std::string& key) {
  check_sizes("store.erase", key);
  const auto reply =
      request(Command::erase, timeout_, "store.erase", fmt::format("erase of \"{}\"", key),
              [&](Writer& message) { message.text(key); });
  return reply.value == "\1";
}

}  // namespace ferrite::parallel::bootstrap
