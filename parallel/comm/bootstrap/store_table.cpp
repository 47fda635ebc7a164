#include "ferrite/parallel/comm/bootstrap/store_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ferrite/parallel/comm/links/socket.h"

namespace ferrite::parallel::bootstrap {

using protocol::Answer;
using protocol::Command;
using protocol::kMaxKey;
using protocol::kMaxValue;
using protocol::Reader;
using protocol::Writer;

namespace {
/// Memory per key beyond its bytes.
constexpr std::size_t kPerKey = 128;
}  // namespace

bool StoreTable::is_command(std::uint8_t command) {
  return command >= static_cast<std::uint8_t>(Command::set) &&
         command <= static_cast<std::uint8_t>(Command::erase);
}

bool StoreTable::handle(ClientId client, Command command, Reader& message, TimePoint now) {
  const auto request = message.number<std::uint32_t>();
  switch (command) {
    case Command::set:
      return handle_set(client, request, message);
    case Command::get:
      return handle_get(client, request, message, now);
    case Command::add:
      return handle_add(client, request, message);
    case Command::missing:
      return handle_missing(client, request, message);
    case Command::erase:
      return handle_erase(client, request, message);
    default:
      return false;
  }
}

void StoreTable::answer(ClientId client, Answer answer, std::uint32_t request) {
  send_(client, Writer(answer).number(request).take());
}

void StoreTable::answer(ClientId client, std::uint32_t request, std::string_view value) {
  send_(client, Writer(Answer::done).number(request).text(value).take());
}

/// False if there is no room.
bool StoreTable::put(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  const std::size_t before =
      found == values_.end() ? 0 : key.size() + found->second.size() + kPerKey;
  const std::size_t after = key.size() + value.size() + kPerKey;
  if (after > before && bytes_ - before + after > max_bytes_) return false;
  bytes_ = bytes_ - before + after;
  const std::string& kept = values_[key] = std::move(value);

  const auto waits = waits_of_key_.find(key);
  if (waits == waits_of_key_.end()) return true;
  for (const std::uint64_t number : Numbers(waits->second)) {
    const Wait wait = take(number);
    answer(wait.client, wait.request, kept);
  }
  return true;
}

bool StoreTable::handle_set(ClientId client, std::uint32_t request, Reader& message) {
  const std::string key(message.text(kMaxKey));
  const std::string_view value = message.text(kMaxValue);
  if (!message.ended()) return false;
  if (put(key, std::string(value))) {
    answer(client, request, {});
  } else {
    answer(client, Answer::store_full, request);
  }
  return true;
}

bool StoreTable::handle_get(ClientId client, std::uint32_t request, Reader& message,
                            TimePoint now) {
  const std::string key(message.text(kMaxKey));
  const auto timeout = message.number<std::uint64_t>();
  if (!message.ended()) return false;
  const auto found = values_.find(key);
  if (found != values_.end()) {
    answer(client, request, found->second);
  } else if (timeout == 0) {
    answer(client, Answer::timed_out, request);
  } else {
    const auto wait = std::min<std::uint64_t>(timeout, links::kLongestWait.count());
    const TimePoint deadline = now + std::chrono::milliseconds(wait);
    const std::uint64_t number = requested_++;
    waits_.emplace(number, Wait{client, request, key, deadline});
    deadlines_.emplace(deadline, number);
    waits_of_key_[key].insert(number);
    waits_of_client_[client].insert(number);
  }
  return true;
}

bool StoreTable::handle_add(ClientId client, std::uint32_t request, Reader& message) {
  const std::string key(message.text(kMaxKey));
  const auto amount = message.number<std::int64_t>();
  if (!message.ended()) return false;
  std::int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const char* end = found->second.data() + found->second.size();
    const auto [stop, status] = std::from_chars(found->second.data(), end, sum);
    if (status != std::errc() || stop != end) {
      answer(client, Answer::not_a_number, request);
      return true;
    }
  }
  // Unsigned, so that numbers from untrusted clients cannot overflow.
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                  static_cast<std::uint64_t>(amount));
  const std::string value = std::to_string(sum);
  if (put(key, value)) {
    answer(client, request, value);
  } else {
    answer(client, Answer::store_full, request);
  }
  return true;
}

/// Answers with one byte per key: whether it is missing.
bool StoreTable::handle_missing(ClientId client, std::uint32_t request, Reader& message) {
  const auto count = message.number<std::uint32_t>();
  if (count > message.left() / 4) return false;  // each has at least a length
  std::string missing;
  missing.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    missing.push_back(values_.count(std::string(message.text(kMaxKey))) ? '\0' : '\1');
  }
  if (!message.ended()) return false;
  answer(client, request, missing);
  return true;
}

bool StoreTable::handle_erase(ClientId client, std::uint32_t request, Reader& message) {
  const std::string key(message.text(kMaxKey));
  if (!message.ended()) return false;
  const auto found = values_.find(key);
  const bool there = found != values_.end();
  if (there) {
    bytes_ -= key.size() + found->second.size() + kPerKey;
    values_.erase(found);
  }
  answer(client, request, there ? "\1" : std::string_view("\0", 1));
  return true;
}

StoreTable::Wait StoreTable::take(std::uint64_t number) {
  Wait wait = std::move(waits_.extract(number).mapped());
  deadlines_.erase({wait.deadline, number});
  const auto remove = [number](auto& numbers, const auto& key) {
    const auto found = numbers.find(key);
    found->second.erase(number);
    if (found->second.empty()) numbers.erase(found);
  };
  remove(waits_of_key_, wait.key);
  remove(waits_of_client_, wait.client);
  return wait;
}

void StoreTable::disconnected(ClientId client) {
  const auto waits = waits_of_client_.find(client);
  if (waits == waits_of_client_.end()) return;
  for (const std::uint64_t number : Numbers(waits->second)) take(number);
}

TimePoint StoreTable::expire(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Wait wait = take(deadlines_.begin()->second);
    answer(wait.client, Answer::timed_out, wait.request);
  }
  return deadlines_.empty() ? TimePoint::max() : deadlines_.begin()->first;
}

}  // namespace ferrite::parallel::bootstrap
