// Splits the pixels that decoders return into channel planes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferrite::data {

/// Splits `count` pixels of `step` values each: the first three values go to the planes `out`, `out
/// + area` and `out + 2 * area`.
inline void split_colours(const std::uint8_t* __restrict pixels, std::size_t count,
                          std::size_t step, std::uint8_t* __restrict out, std::size_t area) {
  std::uint8_t* __restrict const red = out;
  std::uint8_t* __restrict const green = out + area;
  std::uint8_t* __restrict const blue = out + 2 * area;
  const auto split = [&](std::size_t n) {
    for (std::size_t i = 0; i < count; ++i) {
      red[i] = pixels[i * n];
      green[i] = pixels[i * n + 1];
      blue[i] = pixels[i * n + 2];
    }
  };
  if (step == 3)
    split(3);  // a constant, for which compilers vectorize the split
  else
    split(step);
}

/// Copies channel `channel` of `count` pixels of `step` values each.
inline void split_channel(const std::uint8_t* __restrict pixels, std::size_t count,
                          std::size_t step, std::size_t channel, std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = pixels[i * step + channel];
}

/// The gray value of a colour: ITU-R 601 luma, rounded as in Pillow.
inline std::uint8_t luma(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((red * 19595u + green * 38470u + blue * 7471u + 0x8000u) >> 16);
}

}  // namespace ferrite::data
