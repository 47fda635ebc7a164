// Field numbers are those of TensorFlow's event.proto, summary.proto, histogram.proto, tensor.proto
// and of TensorBoard's plugin_data.proto.
#include "ferrite/metrics/tensorboard.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/data/png.h"
#include "ferrite/metrics/event_file.h"
#include "ferrite/ops/copy.h"

namespace ferrite::metrics {

namespace {

ProtoMessage event(std::int64_t step, std::optional<double> walltime) {
  ProtoMessage message;
  message.float64(1, walltime.value_or(wall_time()));
  if (step != 0) message.integer(2, step);
  return message;
}

/// Wraps a Summary.Value in a summary in an event.
ProtoMessage summary_event(const ProtoMessage& value, std::int64_t step,
                           std::optional<double> walltime) {
  ProtoMessage summary;
  summary.message(1, value);
  return event(step, walltime).message(5, summary);
}

ProtoMessage value_of(std::string_view tag) {
  ProtoMessage value;
  value.bytes(1, tag);
  return value;
}

ProtoMessage scalar(std::string_view tag, double value) {
  return value_of(tag).float32(2, static_cast<float>(value));
}

ProtoMessage plugin(std::string_view name, const ProtoMessage& content) {
  ProtoMessage data, metadata;
  data.bytes(1, name).message(2, content);
  return metadata.message(1, data);
}

std::filesystem::path default_folder(const std::string& comment) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return fmt::format("runs/{:%b%d_%H-%M-%S}_{}{}", fmt::localtime(std::time(nullptr)), host,
                     comment);
}

void start(EventFile& file, const std::optional<std::int64_t>& purge_step) {
  if (!purge_step) return;
  constexpr std::int64_t kStart = 1;  // SessionLog.SessionStatus
  ProtoMessage session;
  session.integer(1, kStart);
  file.add(event(*purge_step, {}).message(7, session));
}

// ---- Histograms

/// 0 and +-1e-12 * 1.1^n up to 1e20.
const std::vector<double>& edges() {
  static const std::vector<double> all = [] {
    std::vector<double> positive;
    for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
    std::vector<double> list;
    for (std::size_t i = positive.size(); i-- > 0;) list.push_back(-positive[i]);
    list.push_back(0);
    list.insert(list.end(), positive.begin(), positive.end());
    return list;
  }();
  return all;
}

ProtoMessage histogram(const std::vector<double>& values) {
  const std::vector<double>& bounds = edges();
  std::vector<double> counts(bounds.size() - 1);
  double least = INFINITY, most = -INFINITY, number = 0, sum = 0, squares = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    least = std::min(least, v), most = std::max(most, v);
    ++number, sum += v, squares += v * v;
    const auto above = std::ranges::upper_bound(bounds, v) - bounds.begin();
    counts[std::clamp<std::size_t>(static_cast<std::size_t>(above), 1, counts.size()) - 1] += 1;
  }
  // The non-empty buckets, and an empty one before them: TensorBoard assumes that each bucket
  // begins where the previous one ends.
  const auto filled = [](double count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, filled) - counts.begin();
  const auto last = std::find_if(counts.rbegin(), counts.rend(), filled).base() - counts.begin();
  const auto begin = number > 0 ? std::max<std::ptrdiff_t>(first - 1, 0) : 0;
  const auto end = number > 0 ? last : 1;
  ProtoMessage message;
  message.float64(1, number > 0 ? least : 0).float64(2, number > 0 ? most : 0).float64(3, number);
  message.float64(4, sum).float64(5, squares);
  message.float64s(6, std::span(bounds).subspan(static_cast<std::size_t>(begin) + 1,
                                                static_cast<std::size_t>(end - begin)));
  return message.float64s(7, std::span(counts).subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin)));
}

// ---- Images

/// `image` with its dimensions permuted from `from` to `to`, which have the same letters.
Tensor reordered(const Tensor& image, std::string_view from, std::string_view to) {
  FERRITE_CHECK(image.defined() && image.dim() == static_cast<int>(from.size()), ShapeError,
                "add_image", "expected the dimensions {}, got {}", from, image.describe());
  Dims order;
  for (const char letter : to) order.push_back(static_cast<std::int64_t>(from.find(letter)));
  return image.detach().permute(order);
}

/// uint8 on the host; [0, 1] of any other type becomes [0, 255], computed in float32 as in PyTorch.
Tensor bytes_of(const Tensor& image) {
  if (image.dtype() == kUInt8) return image.cpu().contiguous();
  const std::vector<float> values = image.to_vector<float>();
  Tensor bytes = empty(image.shape(), {.dtype = kUInt8, .device = kCPU});
  auto* out = bytes.data<std::uint8_t>();
  for (const float v : values)
    *out++ = static_cast<std::uint8_t>(v > 0 ? std::min(v * 255, 255.0f) : 0);  // NaN is black
  return bytes;
}

ProtoMessage image_value(std::string_view tag, const Tensor& chw) {
  const std::string png = data::encode_png(chw);
  ProtoMessage image;
  image.integer(1, chw.size(1)).integer(2, chw.size(2)).integer(3, chw.size(0)).bytes(4, png);
  return value_of(tag).message(4, image);
}

void check_format(std::string_view given, std::initializer_list<std::string_view> known) {
  FERRITE_CHECK(std::ranges::find(known, given) != known.end(), ValueError, "add_image",
                "expected dataformats of {}, got '{}'", fmt::join(known, ", "), given);
}

// ---- Hyperparameters

/// google.protobuf.Value
ProtoMessage any_value(const LogValue& value) {
  ProtoMessage message;
  if (const auto* text = std::get_if<std::string>(&value.get()))
    message.bytes(3, *text);
  else if (const auto* yes = std::get_if<bool>(&value.get()))
    message.integer(4, *yes);
  else if (const auto* whole = std::get_if<std::int64_t>(&value.get()))
    message.float64(2, static_cast<double>(*whole));
  else
    message.float64(2, std::get<double>(value.get()));
  return message;
}

std::int64_t data_type(const LogValue& value) {
  constexpr std::int64_t kString = 1, kBool = 2, kFloat64 = 3;
  if (std::holds_alternative<std::string>(value.get())) return kString;
  return std::holds_alternative<bool>(value.get()) ? kBool : kFloat64;
}

ProtoMessage hparams_value(std::string_view tag, std::uint32_t field, const ProtoMessage& content) {
  ProtoMessage data;
  data.message(field, content);
  return value_of(tag).message(9, plugin("hparams", data));
}

}  // namespace

// ---- SummaryWriter

SummaryWriter::SummaryWriter(const std::filesystem::path& log_dir,
                             const SummaryWriterOptions& options)
    : log_dir_(log_dir.empty() ? default_folder(options.comment) : log_dir), options_(options) {
  FERRITE_CHECK(options.max_queue > 0 && options.flush_secs >= 0, ValueError, "SummaryWriter",
                "expected max_queue above 0 and flush_secs of 0 or more, got {} and {}",
                options.max_queue, options.flush_secs);
  file_ = std::make_unique<EventFile>(log_dir_, options.filename_suffix, options.max_queue,
                                      options.flush_secs);
  start(*file_, options.purge_step);
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::add(const ProtoMessage& value, std::int64_t step, Walltime walltime) {
  file_->add(summary_event(value, step, walltime));
}

void SummaryWriter::add_scalar(std::string_view tag, double value, std::int64_t step,
                               Walltime walltime) {
  add(scalar(tag, value), step, walltime);
}

EventFile& SummaryWriter::run(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<EventFile>& file = runs_[name];
  if (!file) {
    auto made = std::make_unique<EventFile>(log_dir_ / name, options_.filename_suffix,
                                            options_.max_queue, options_.flush_secs);
    start(*made, options_.purge_step);
    file = std::move(made);
  }
  return *file;
}

void SummaryWriter::add_scalars(std::string_view main_tag,
                                const std::map<std::string, double>& values, std::int64_t step,
                                Walltime walltime) {
  for (const auto& [tag, value] : values) {
    std::string name = fmt::format("{}_{}", main_tag, tag);
    std::ranges::replace(name, '/', '_');
    run(name).add(summary_event(scalar(main_tag, value), step, walltime));
  }
}

void SummaryWriter::add_histogram(std::string_view tag, const Tensor& values, std::int64_t step,
                                  Walltime walltime) {
  FERRITE_CHECK(values.numel() > 0, ValueError, "add_histogram", "'{}' has no elements", tag);
  add(value_of(tag).message(5, histogram(values.to_vector<double>())), step, walltime);
}

void SummaryWriter::add_image(std::string_view tag, const Tensor& image, std::int64_t step,
                              std::string_view dataformats, Walltime walltime) {
  check_format(dataformats, {"CHW", "HWC", "HW"});
  Tensor planes = reordered(image, dataformats, dataformats == "HW" ? "HW" : "CHW");
  if (planes.dim() == 2) planes = planes.unsqueeze(0);
  add(image_value(tag, bytes_of(planes)), step, walltime);
}

void SummaryWriter::add_images(std::string_view tag, const Tensor& images, std::int64_t step,
                               std::string_view dataformats, Walltime walltime) {
  check_format(dataformats, {"NCHW", "NHWC"});
  const Tensor planes = bytes_of(reordered(images, dataformats, "NCHW"));
  FERRITE_CHECK(planes.numel() > 0, ShapeError, "add_images", "'{}' has no pixels", tag);
  const auto columns = static_cast<int>(std::clamp<std::int64_t>(planes.size(0), 1, 8));
  add(image_value(tag, data::image_grid(planes, columns)), step, walltime);
}

void SummaryWriter::add_text(std::string_view tag, std::string_view text, std::int64_t step,
                             Walltime walltime) {
  constexpr std::int64_t kDtString = 7;
  ProtoMessage dim, shape, tensor;
  dim.integer(1, 1);
  shape.message(2, dim);
  tensor.integer(1, kDtString).message(2, shape).bytes(8, text);
  add(value_of(fmt::format("{}/text_summary", tag))
          .message(9, plugin("text", {}))
          .message(8, tensor),
      step, walltime);
}

void SummaryWriter::add_hparams(const LogRow& hparams, const std::map<std::string, double>& metrics,
                                std::string run_name, Walltime walltime) {
  constexpr std::int64_t kSuccess = 1;
  const double now = walltime.value_or(wall_time());
  ProtoMessage experiment, begin, end;
  experiment.float64(3, now);
  for (const auto& [name, value] : hparams) {
    ProtoMessage info, entry;
    experiment.message(4, info.bytes(1, name).integer(4, data_type(value)));
    begin.message(1, entry.bytes(1, name).message(2, any_value(value)));
  }
  for (const auto& [tag, value] : metrics) {
    ProtoMessage name, info;
    experiment.message(5, info.message(1, name.bytes(2, tag)));
  }
  begin.float64(5, now);
  end.integer(1, kSuccess).float64(2, now);
  EventFile& file = run(run_name.empty() ? fmt::format("{}", now) : run_name);
  file.add(summary_event(hparams_value("_hparams_/experiment", 2, experiment), 0, now));
  file.add(summary_event(hparams_value("_hparams_/session_start_info", 3, begin), 0, now));
  file.add(summary_event(hparams_value("_hparams_/session_end_info", 4, end), 0, now));
  for (const auto& [tag, value] : metrics) file.add(summary_event(scalar(tag, value), 0, now));
}

void SummaryWriter::flush() {
  file_->flush();
  std::lock_guard lock(mutex_);
  for (const auto& [name, file] : runs_) file->flush();
}

}  // namespace ferrite::metrics
