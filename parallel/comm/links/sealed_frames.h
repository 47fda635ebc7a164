// Sealed frames: the encoding of bytes over TCP that detects any modification, loss, repetition or
// reordering by an attacker between two ranks.
//
// A stream of bytes is cut into frames: the length of the payload (4 bytes, little-endian), the
// payload, and a tag of 16 bytes, the GMAC (NIST SP 800-38D: AES-256-GCM without plain text) of
// both. The nonce is the frame's number in the stream, which is not sent; a frame is therefore
// valid in one position of one stream. Every direction of every connection has a key of its own,
// which is used for nothing else. Nothing is encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::parallel::links {

inline constexpr std::size_t kFrameHeader = 4, kFrameTag = 16;
/// Maximum payload, which is never empty. A receiver can use a frame only when it is complete.
inline constexpr std::size_t kMaxFrame = std::size_t{64} << 10;

/// The tags of a stream, in the order of its frames.
class FrameMac {
 public:
  using Tag = std::array<std::byte, kFrameTag>;

  /// `key` has 32 bytes.
  explicit FrameMac(std::string_view key);
  ~FrameMac();
  FrameMac(FrameMac&&) noexcept;
  FrameMac& operator=(FrameMac&&) noexcept;

  Tag next(std::span<const std::byte> payload);
  /// Whether this is the tag of the next frame.
  bool matches_next(std::span<const std::byte> payload, std::span<const std::byte> tag);

  static std::array<std::byte, kFrameHeader> header(std::size_t payload);
  /// The length in a header; 0 for an invalid one.
  static std::size_t payload_of(std::span<const std::byte> header);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
  std::uint64_t number_ = 0;
};

/// Both directions of a connection. Each may be used by a different thread.
class SealedChannel {
 public:
  SealedChannel(std::string_view key_out, std::string_view key_in) : out_(key_out), in_(key_in) {}

  /// Encodes these bytes as frames.
  std::string seal(std::string_view bytes);
  /// Appends to `bytes` the payload of frames that are complete with the `arrived` bytes. Returns
  /// false, also for all later calls, if that is not the data that the other end sealed next.
  bool open(std::string_view arrived, std::string& bytes);
  /// Whether part of a frame has arrived.
  bool within_frame() const { return !rest_.empty(); }

 private:
  FrameMac out_, in_;
  std::string rest_;
  bool broken_ = false;
};

/// Call it before the first use of libcrypto, which by default cleans up at exit() while threads
/// still seal their last messages.
void prepare_libcrypto();

}  // namespace ferrite::parallel::links
