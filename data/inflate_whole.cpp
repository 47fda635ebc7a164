#include "ferrite/data/inflate_whole.h"

#include <libdeflate.h>

#include <memory>
#include <new>

namespace ferrite::data {

namespace {

libdeflate_decompressor* decompressor() {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  // A decompressor serves one thread at a time, and is larger than the other memory of many images.
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> mine(
      libdeflate_alloc_decompressor());
  if (!mine) throw std::bad_alloc();
  return mine.get();
}

/// Calls one of libdeflate's decompression functions. Without a pointer for the output size, they
/// require the output to be filled exactly.
template <class Decompress>
bool inflate_by(Decompress* decompress, Bytes in, std::span<std::uint8_t> out) {
  std::size_t consumed = 0;
  return decompress(decompressor(), in.data(), in.size(), out.data(), out.size(), &consumed,
                    nullptr) == LIBDEFLATE_SUCCESS &&
         consumed == in.size();
}

}  // namespace

bool inflate_zlib(Bytes in, std::span<std::uint8_t> out) {
  return inflate_by(libdeflate_zlib_decompress_ex, in, out);
}

bool inflate_gzip(Bytes in, std::span<std::uint8_t> out) {
  return inflate_by(libdeflate_gzip_decompress_ex, in, out);
}

}  // namespace ferrite::data
