// Decompression of gzip members and raw deflate streams in pieces of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ferrite/data/file.h"

namespace ferrite::data {

enum class Compression : std::uint8_t { gzip, deflate };

/// No deflate stream expands by more than this factor.
inline constexpr std::uint64_t kMaxInflation = 1032;

bool is_gzip(Bytes bytes);

/// Decompresses `bytes`, which must outlive it; never produces more than requested. A gzip member's
/// CRC and length are checked at its end. Corrupt data is an IoError with its offset.
class InflateStream {
 public:
  InflateStream(Bytes bytes, Compression compression, Where where, std::uint64_t base = 0);
  ~InflateStream();

  /// Fills `out` until it is full or the stream ends; returns the bytes produced.
  std::size_t read(void* out, std::size_t bytes);
  /// Whether the stream ends here; tries to read one more byte.
  bool at_end();
  /// Bytes of input consumed.
  std::size_t consumed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferrite::data
