// The server's data: keys, and the clients waiting for them. No sockets and no threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ferrite/parallel/comm/bootstrap/store_protocol.h"

namespace ferrite::parallel::bootstrap {

using ClientId = std::uint64_t;
using TimePoint = std::chrono::steady_clock::time_point;
/// Sends a message to a client.
using SendTo = std::function<void(ClientId, std::string message)>;

class StoreTable {
 public:
  StoreTable(std::size_t max_bytes, SendTo send) : max_bytes_(max_bytes), send_(std::move(send)) {}

  /// Whether the command is one of the store's.
  static bool is_command(std::uint8_t command);
  /// Processes the request; false if it is malformed.
  bool handle(ClientId client, protocol::Command command, protocol::Reader& message, TimePoint now);
  void disconnected(ClientId client);
  /// Answers waits that have expired. Returns the next expiry.
  TimePoint expire(TimePoint now);

  std::size_t bytes() const { return bytes_; }
  std::size_t waiting() const { return waits_.size(); }

 private:
  struct Wait {
    ClientId client;
    std::uint32_t request;
    std::string key;
    TimePoint deadline;
  };
  /// Waits are numbered in the order of their requests.
  using Numbers = std::set<std::uint64_t>;

  bool put(const std::string& key, std::string value);
  bool handle_set(ClientId client, std::uint32_t request, protocol::Reader& message);
  bool handle_get(ClientId client, std::uint32_t request, protocol::Reader& message, TimePoint now);
  bool handle_add(ClientId client, std::uint32_t request, protocol::Reader& message);
  bool handle_missing(ClientId client, std::uint32_t request, protocol::Reader& message);
  bool handle_erase(ClientId client, std::uint32_t request, protocol::Reader& message);
  void answer(ClientId client, protocol::Answer answer, std::uint32_t request);
  void answer(ClientId client, std::uint32_t request, std::string_view value);
  /// Removes a wait, in logarithmic time however many others have its key or its client.
  Wait take(std::uint64_t number);

  const std::size_t max_bytes_;
  const SendTo send_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::uint64_t requested_ = 0;  // waits
  std::unordered_map<std::uint64_t, Wait> waits_;
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
  std::unordered_map<std::string, Numbers> waits_of_key_;
  std::unordered_map<ClientId, Numbers> waits_of_client_;
};

}  // namespace ferrite::parallel::bootstrap
