// The wire protocol between the store's server and its clients.
//
// The greeting has fixed sizes: the client sends kMagic, kVersion as 4 bytes and a nonce; the
// server answers with its own; the client sends its proof() that it knows the token; the server
// answers one byte of GreetingReply and, if that is `accepted`, its own proof, else as many zeros.
// The token itself is never sent. From then on both send sealed frames (sealed_frames.h), under
// keys derived from the token and both nonces. The frames carry messages: a length of 4 bytes, and
// as many bytes, the first of which is a Command or an Answer. Numbers are little-endian; strings
// are preceded by their length as 4 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::bootstrap::protocol {

inline constexpr std::string_view kMagic = "FERRITE\n";
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::size_t kMaxToken = 256;
inline constexpr std::size_t kMaxKey = 4096;
inline constexpr std::size_t kMaxValue = std::size_t{16} << 20;
inline constexpr std::size_t kMaxMessage = kMaxValue + 2 * kMaxKey;
inline constexpr std::size_t kNonce = 16;
inline constexpr std::size_t kProof = 32;
inline constexpr std::size_t kHello = kMagic.size() + 4 + kNonce;
inline constexpr std::size_t kReply = 1 + kProof;

enum class GreetingReply : std::uint8_t { accepted, other_version, refused, full };

enum class Command : std::uint8_t {
  // For the store: the request's number (4 bytes), then
  set = 1,  // key, value
  get,      // key, milliseconds
  add,      // key, amount
  missing,  // count (4 bytes), keys
  erase,    // key
  // For the monitor:
  join = 32,  // run, rank, world size (4 bytes each), milliseconds of timeout, name
  beat,       // count (4 bytes), reports
  leave,      // nothing
  failure,    // group, reason
  blame,      // the request's number, group, sequence
};

enum class Answer : std::uint8_t {
  done = 1,      // the request's number, the result
  timed_out,     // the request's number
  store_full,    // the request's number
  not_a_number,  // the request's number: add() to a value that is not a number
  // To monitors:
  joined = 32,  // nothing
  heard,        // empty: reply to a beat
  lost,         // reason
  failed,       // group, reason
  blamed,       // the request's number, reason
  report,       // empty: send a beat now
  closing,      // empty: the server ends
};

/// Builds one message, preceded by its length.
class Writer {
 public:
  template <class Head>
  explicit Writer(Head head) : bytes_(4, '\0') {
    number(static_cast<std::uint8_t>(head));
  }
  template <class T>
  Writer& number(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>(bits & 0xff));
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
    return *this;
  }
  Writer& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  /// The message, with its length.
  std::string take() {
    auto size = static_cast<std::uint32_t>(bytes_.size() - 4);
    for (int i = 0; i < 4; ++i, size >>= 8) bytes_[i] = static_cast<char>(size & 0xff);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

/// Parses a message from its first byte; missing data reads as 0 or "" and makes it not ok().
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T number() {
    if (rest_.size() < sizeof(T)) return fail<T>();
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(bits);
  }
  std::string_view text(std::size_t longest) {
    const auto size = number<std::uint32_t>();
    if (size > longest || size > rest_.size()) return fail<std::string_view>();
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  std::size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  /// Whether everything was read, without any bytes left.
  bool ended() const { return ok_ && rest_.empty(); }

 private:
  template <class T>
  T fail() {
    ok_ = false;
    rest_ = {};
    return T{};
  }
  std::string_view rest_;
  bool ok_ = true;
};

/// The length at the start of a message of at least 4 bytes.
inline std::size_t message_size(std::string_view bytes) {
  return Reader(bytes.substr(0, 4)).number<std::uint32_t>();
}

/// What both sides send first.
inline std::string hello(std::string_view nonce, std::uint32_t version = kVersion) {
  std::string out(kMagic);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(version >> (8 * i)));
  return out.append(nonce);
}

/// Proof that the `whose` side ("client", "server") of this connection knows the token.
inline std::string proof(std::string_view token, std::string_view whose,
                         std::string_view client_nonce, std::string_view server_nonce) {
  return links::derive(token, {"ferrite store proof", whose, client_nonce, server_nonce});
}

/// Key of the frames sent by this side.
inline std::string frame_key(std::string_view token, std::string_view whose,
                             std::string_view client_nonce, std::string_view server_nonce) {
  return links::derive(token, {"ferrite store frames", whose, client_nonce, server_nonce});
}

}  // namespace ferrite::parallel::bootstrap::protocol
