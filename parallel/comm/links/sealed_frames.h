// Sealed frames: how bytes go over TCP, so that whoever stands between two ranks can neither change
// nor drop, repeat or reorder any of them without being noticed.
//
// A stream of bytes is cut into frames: the length of the payload (4 bytes, little-endian), the
// payload, and a tag of 16 bytes, the GMAC (NIST SP 800-38D: AES-256-GCM of no plain text) of both.
// Its nonce is the frame's number in the stream, which is not sent; so a frame fits in one place of
// one stream. Every direction of every connection has a key of its own, which is used for nothing
// else. Nothing is encrypted.
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
/// Of the payload, which is not empty. A receiver can use a frame once all of it has come.
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
  /// The length in a header; 0 for one that no frame has.
  static std::size_t payload_of(std::span<const std::byte> header);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
  std::uint64_t number_ = 0;
};

/// Both directions of a connection. Each may be used by a thread of its own.
class SealedChannel {
 public:
  SealedChannel(std::string_view key_out, std::string_view key_in) : out_(key_out), in_(key_in) {}

  /// The frames of these bytes.
  std::string seal(std::string_view bytes);
  /// Appends to `bytes` what the frames hold that are complete with what has `arrived`. False,
  /// also ever after, where that is not what the other end has sealed next.
  bool open(std::string_view arrived, std::string& bytes);
  /// Whether part of a frame has come.
  bool within_frame() const { return !rest_.empty(); }

 private:
  FrameMac out_, in_;
  std::string rest_;
  bool broken_ = false;
};

/// Before the first use of libcrypto, which by default would take itself apart at exit() while
/// threads still seal their last words.
void prepare_libcrypto();

}  // namespace ferrite::parallel::links
