#include "ferrite/kernels/augment.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kAugmentThreads = 256;
constexpr std::int64_t kMostPacks = (std::int64_t{1} << 31) - 1;  // a launch

/// A window's position in the image without padding.
struct Place {
  int top, left, mirrored;
};

__global__ void __launch_bounds__(kAugmentThreads)
    draw_places(PhiloxState state, std::int64_t images, std::int64_t tops, std::int64_t lefts,
                std::int64_t padding, bool random, float flip, Place* places) {
  const std::int64_t i = thread_in_grid<kAugmentThreads>();
  if (i >= images) return;
  const ImageWindow window = image_window(state.resolved(), i, tops, lefts, random, flip);
  places[i] = {static_cast<int>(window.top - padding), static_cast<int>(window.left - padding),
               window.mirrored};
}

/// The partition of the result's rows into packs: rows of one channel, or of pixels with all
/// channels.
struct Packs {
  std::uint32_t count;
  Divisor by_row, by_height, by_channels;
  int channels, width, image_height, image_width;
  bool interleaved;
  std::int64_t strides[4];  // of the images
};

template <int V, class Out, class In>
__global__ void __launch_bounds__(kAugmentThreads)
    augment_packs(Packs packs, AugmentArgs args, const Place* places, Out* out, const In* images) {
  FERRITE_SHARED(scales, float[kMaxImageChannels]);
  FERRITE_SHARED(shifts, float[kMaxImageChannels]);
  if (static_cast<int>(threadIdx.x) < packs.channels) {
    scales[threadIdx.x] = args.scale[threadIdx.x];
    shifts[threadIdx.x] = args.shift[threadIdx.x];
  }
  __syncthreads();
  const std::uint32_t number = blockIdx.x * kAugmentThreads + threadIdx.x;
  if (number >= packs.count) return;
  std::uint32_t rest = number;
  const std::uint32_t first = packs.by_row.split(rest) * V;
  const int row = static_cast<int>(packs.by_height.split(rest));
  const int channel = packs.interleaved ? 0 : static_cast<int>(packs.by_channels.split(rest));
  const Place place = places[rest];
  const int y = place.top + row;
  const bool row_inside = y >= 0 && y < packs.image_height;
  const In* const in = images + rest * packs.strides[0] + y * packs.strides[2];
  Pack<Out, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    std::uint32_t column = first + v;
    int c = channel;
    if (packs.interleaved) c = static_cast<int>(packs.by_channels.split(column));
    const int j = static_cast<int>(column);
    const int x = place.left + (place.mirrored ? packs.width - 1 - j : j);
    float value = 0;
    if (row_inside && x >= 0 && x < packs.image_width)
      value = static_cast<float>(in[c * packs.strides[1] + x * packs.strides[3]]);
    result.v[v] = static_cast<Out>(fmaf(value, scales[c], shifts[c]));
  }
  store_pack<V>(out + static_cast<std::int64_t>(number) * V, result);
}

template <int V, class Out, class In>
void augment_as(const Stream& stream, const View& out, const View& images, const AugmentArgs& args,
                const Place* places, bool interleaved) {
  const std::int64_t channels = out.sizes[1], height = out.sizes[2], width = out.sizes[3];
  const std::int64_t row = (interleaved ? width * channels : width) / V;
  const std::int64_t image = channels * height * width;  // elements of the result
  const std::int64_t most = kMostPacks / (image / V);    // images per launch
  for (std::int64_t n = 0; n < out.sizes[0]; n += most) {
    const std::int64_t count = std::min(most, out.sizes[0] - n) * (image / V);
    const Packs packs{static_cast<std::uint32_t>(count),
                      Divisor(static_cast<std::uint32_t>(row)),
                      Divisor(static_cast<std::uint32_t>(height)),
                      Divisor(static_cast<std::uint32_t>(channels)),
                      static_cast<int>(channels),
                      static_cast<int>(width),
                      static_cast<int>(images.sizes[2]),
                      static_cast<int>(images.sizes[3]),
                      interleaved,
                      {images.strides[0], images.strides[1], images.strides[2], images.strides[3]}};
    launch({"augment", stream, blocks_for(count, kAugmentThreads), kAugmentThreads},
           augment_packs<V, Out, In>, packs, args, places + n, out.as<Out>() + n * image,
           static_cast<const In*>(images.as<In>() + n * images.strides[0]));
  }
}

}  // namespace

void augment(const Stream& stream, const View& out, const View& images, const AugmentArgs& args,
             PhiloxState state) {
  if (out.numel == 0) return;
  const std::int64_t count = out.sizes[0], height = out.sizes[2], width = out.sizes[3];
  const Workspace space(stream, static_cast<std::size_t>(count) * sizeof(Place));
  Place* const places = space.as<Place>();
  launch({"draw_places", stream, blocks_for(count, kAugmentThreads), kAugmentThreads}, draw_places,
         state, count, images.sizes[2] + 2 * args.padding - height + 1,
         images.sizes[3] + 2 * args.padding - width + 1, args.padding, args.random, args.flip,
         places);
  const bool interleaved = !out.is_contiguous();
  dispatch_types<float, Half, BFloat16>(out.dtype, "augment", [&]<class Out>() {
    dispatch_types<std::uint8_t, float>(images.dtype, "augment", [&]<class In>() {
      constexpr int kPack = pack_size<Out>();
      if (is_aligned(out.as<Out>(), kPack) &&
          (interleaved ? width * out.sizes[1] : width) % kPack == 0)
        augment_as<kPack, Out, In>(stream, out, images, args, places, interleaved);
      else
        augment_as<1, Out, In>(stream, out, images, args, places, interleaved);
    });
  });
}

}  // namespace ferrite::kernels::cuda
