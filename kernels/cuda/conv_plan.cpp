#include "ferrite/kernels/cuda/conv_plan.h"

namespace ferrite::kernels::cuda::native {

namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;

/// An axis with those of the phases [first, first + kPhases) that exist. Without channels there are
/// no taps.
ConvAxis device_axis(const std::vector<Axis>& axes, std::size_t first, bool any_channels,
                     std::int64_t size, std::int64_t from_step, std::int64_t kernel_step,
                     std::int64_t to_step) {
  const Axis& any = axes[0];
  ConvAxis axis{};
  axis.stride = static_cast<int>(any.stride);
  axis.step = static_cast<int>(any.step);
  axis.size = static_cast<int>(size);
  axis.from_step = from_step;
  axis.kernel_step = any.kernel_step * kernel_step;
  axis.to_step = any.out_step * to_step;
  for (std::size_t i = 0; i < ConvAxis::kPhases && first + i < axes.size(); ++i) {
    const Axis& a = axes[first + i];
    ConvAxis::Phase& phase = axis.phases[i];
    phase.count = Divisor(static_cast<std::uint32_t>(std::max<std::int64_t>(1, a.count)));
    phase.taps = Divisor(static_cast<std::uint32_t>(std::max<std::int64_t>(1, a.taps)));
    phase.tap_count = any_channels ? static_cast<std::uint32_t>(a.taps) : 0;
    phase.first = static_cast<int>(a.first);
    phase.kernel_first = a.kernel_first * kernel_step;
    phase.to_first = a.out_first * to_step;
  }
  return axis;
}

struct Most {
  std::int64_t count = 0, taps = 0;
  std::uint32_t phases = 0;

  Most(const std::vector<Axis>& axes, std::size_t first) {
    for (; phases < ConvAxis::kPhases && first + phases < axes.size(); ++phases) {
      count = std::max(count, axes[first + phases].count);
      taps = std::max(taps, axes[first + phases].taps);
    }
  }
};

/// The view with stride 0 for dimensions of size 1, whose strides may be any. Kernels compute the
/// addresses of elements outside of an image, too; so those are aligned where the image's are,
/// which asynchronous copies need although they read nothing there.
View without_idle_strides(View v) {
  for (int d = 0; d < v.ndim; ++d)
    if (v.sizes[d] == 1) v.strides[d] = 0;
  return v;
}

/// `kernel_to` and `kernel_from` are the filter's dimensions of the channels of `to` and `from`.
std::vector<ConvLaunch> launches(const View& any_to, const View& any_from, const View& any_kernel,
                                 int kernel_to, int kernel_from, const std::vector<Axis>& rows,
                                 const std::vector<Axis>& columns, std::int64_t groups,
                                 std::int64_t most_positions) {
  const View to = without_idle_strides(any_to), from = without_idle_strides(any_from),
             kernel = without_idle_strides(any_kernel);
  const std::int64_t outs = to.sizes[1] / groups, ins = from.sizes[1] / groups;
  ConvGeometry g{};
  g.outs = static_cast<std::uint32_t>(outs);
  g.channels = Divisor(static_cast<std::uint32_t>(std::max<std::int64_t>(1, ins)));
  g.channels_last = from.strides[1] == 1 && from.sizes[1] > 1;
  g.from_image_step = from.strides[0];
  g.from_channel_step = from.strides[1];
  g.from_group_step = ins * from.strides[1];
  g.to_image_step = to.strides[0];
  g.to_channel_step = to.strides[1];
  g.to_group_step = outs * to.strides[1];
  g.kernel_out_step = kernel.strides[kernel_to];
  g.kernel_channel_step = kernel.strides[kernel_from];
  g.kernel_group_step = kernel.sizes[0] / groups * kernel.strides[0];

  const bool from_chunks = g.channels_last && in_chunks(from, 1, ins);
  const bool kernel_chunks = g.channels_last && in_chunks(kernel, kernel_from, ins);
  std::vector<ConvLaunch> result;
  const auto add = [&](std::size_t row_phase, std::size_t column_phase) {
    const Most y(rows, row_phase), x(columns, column_phase);
    const std::int64_t pixels = y.count * x.count, taps = y.taps * x.taps * ins;
    FERRITE_CHECK(
        pixels <= most_positions && taps <= kMost, ValueError, "conv2d",
        "expected up to {} pixels per image and fewer than 2^31 weights per channel, got {} "
        "and {}",
        most_positions, pixels, taps);
    g.rows = device_axis(rows, row_phase, ins > 0, from.sizes[2], from.strides[2],
                         kernel.strides[2], to.strides[2]);
    g.columns = device_axis(columns, column_phase, ins > 0, from.sizes[3], from.strides[3],
                            kernel.strides[3], to.strides[3]);
    g.row_phases = y.phases;
    g.column_phases = x.phases;
    // At least one launch, because sums over no images must be set to 0.
    const std::int64_t most = most_positions / std::max<std::int64_t>(1, pixels);
    std::int64_t image = 0;
    do {
      const std::int64_t images = pixels > 0 ? std::min(most, to.sizes[0] - image) : 0;
      g.images = static_cast<std::uint32_t>(images);
      const auto at = [&](const View& v) {
        return static_cast<char*>(v.data) +
               image * v.strides[0] * static_cast<std::int64_t>(itemsize(v.dtype));
      };
      result.push_back({g, at(to), at(from), groups * y.phases * x.phases, images * pixels, taps,
                        in_chunks(to, 1, outs), from_chunks, kernel_chunks});
      image += images;
    } while (pixels > 0 && image < to.sizes[0]);
  };
  for (std::size_t y = 0; y < rows.size(); y += ConvAxis::kPhases)
    for (std::size_t x = 0; x < columns.size(); x += ConvAxis::kPhases) add(y, x);
  return result;
}

}  // namespace

bool in_chunks(const View& v, int d, std::int64_t channels) {
  bool whole = v.strides[d] == 1 && channels > 0 && channels % kChannelChunk == 0 &&
               reinterpret_cast<std::uintptr_t>(v.data) % (kChannelChunk * itemsize(v.dtype)) == 0;
  for (int other = 0; other < v.ndim; ++other)
    if (other != d && v.sizes[other] > 1) whole = whole && v.strides[other] % kChannelChunk == 0;
  return whole;
}

std::vector<ConvLaunch> forward_launches(const View& out, const View& input, const View& weight,
                                         const ConvParams& p, std::int64_t most_positions) {
  const auto axis = [&](int d) {
    const auto i = static_cast<std::size_t>(d);
    return std::vector<Axis>{forward_axis(out.sizes[2 + d], weight.sizes[2 + d], p.stride[i],
                                          p.padding[i], p.dilation[i])};
  };
  std::vector<ConvLaunch> all =
      launches(out, input, weight, 0, 1, axis(0), axis(1), p.groups, most_positions);
  for (ConvLaunch& launch : all) launch.activation = p.activation;
  return all;
}

std::vector<ConvLaunch> backward_launches(const View& grad_input, const View& grad,
                                          const View& weight, const ConvParams& p,
                                          std::int64_t most_positions) {
  const auto axes = [&](int d) {
    const auto i = static_cast<std::size_t>(d);
    return backward_axes(grad_input.sizes[2 + d], weight.sizes[2 + d], p.stride[i], p.padding[i],
                         p.dilation[i]);
  };
  return launches(grad_input, grad, weight, 1, 0, axes(0), axes(1), p.groups, most_positions);
}

StoreOrder store_order(const ConvLaunch& launch, std::size_t itemsize, int run) {
  const ConvGeometry& g = launch.g;
  const std::int64_t row = g.rows.to_step, column = g.columns.to_step;
  const std::int64_t channel = g.to_channel_step;
  const auto whole = [run](std::int64_t n) { return n % run == 0; };
  StoreOrder order{channel == 1 && g.outs > 1 ? Along::rows : Along::columns};
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(launch.to) % (itemsize * static_cast<std::size_t>(run)) == 0;
  if (!aligned || !whole(g.to_image_step) || g.row_phases != 1 || g.column_phases != 1)
    return order;
  const std::int64_t height = g.rows.phases[0].count.value();
  const std::int64_t width = g.columns.phases[0].count.value();
  if (order.along == Along::rows)
    order.packed = whole(row) && whole(column) && whole(g.outs);
  else
    order.packed = (column == 1 || width == 1) && whole(channel) &&
                   ((whole(width) && whole(row)) || (row == width && whole(height * width)));
  return order;
}

}  // namespace ferrite::kernels::cuda::native
