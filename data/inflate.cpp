#include "ferrite/data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <new>

namespace ferrite::data {

struct InflateStream::State {
  z_stream z = {};
  Bytes bytes;
  std::size_t fed = 0;  // handed to zlib, of which z.avail_in are not consumed yet
  std::uint64_t base;
  Where where;
  bool ended = false;
};

bool is_gzip(Bytes bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

InflateStream::InflateStream(Bytes bytes, Compression compression, Where where, std::uint64_t base)
    : state_(std::make_unique<State>()) {
  state_->bytes = bytes;
  state_->base = base;
  state_->where = where;
  const int window_bits = compression == Compression::gzip ? 15 + 16 : -15;
  if (inflateInit2(&state_->z, window_bits) != Z_OK) throw std::bad_alloc();
}

InflateStream::~InflateStream() { inflateEnd(&state_->z); }

std::size_t InflateStream::consumed() const { return state_->fed - state_->z.avail_in; }

std::size_t InflateStream::read(void* out, std::size_t bytes) {
  State& s = *state_;
  std::size_t produced = 0;
  while (produced < bytes && !s.ended) {
    if (s.z.avail_in == 0) {
      const std::size_t more = std::min<std::size_t>(s.bytes.size() - s.fed, UINT_MAX);
      s.z.next_in = const_cast<Bytef*>(s.bytes.data() + s.fed);
      s.z.avail_in = static_cast<uInt>(more);
      s.fed += more;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes - produced, UINT_MAX));
    s.z.next_out = static_cast<Bytef*>(out) + produced;
    s.z.avail_out = room;
    const int status = inflate(&s.z, Z_NO_FLUSH);
    produced += room - s.z.avail_out;
    if (status == Z_STREAM_END) {
      s.ended = true;
    } else if (status == Z_BUF_ERROR || (status == Z_OK && s.z.avail_out > 0 && s.z.avail_in == 0 &&
                                         s.fed == s.bytes.size())) {
      s.where.fail(s.base + consumed(),
                   "the compressed data ends early, after {} bytes of output; the file is "
                   "truncated",
                   s.z.total_out);
    } else if (status != Z_OK) {
      s.where.fail(s.base + consumed(), "the compressed data is corrupt: {}",
                   s.z.msg ? s.z.msg : "unknown zlib error");
    }
  }
  return produced;
}

bool InflateStream::at_end() {
  std::uint8_t extra;
  return read(&extra, 1) == 0;
}

}  // namespace ferrite::data
