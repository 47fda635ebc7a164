// SummaryWriter, with the names and meanings of torch.utils.tensorboard: scalars, histograms,
// images, text and hyperparameters in files that TensorBoard shows.
//
//   metrics::SummaryWriter writer("runs/resnet18", {.purge_step = resumed_at});
//   writer.add_scalar("Loss/train", loss, step);
//   writer.add_histogram("conv1.weight", model.conv1.weight, step);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/metrics/logger.h"

namespace ferrite::metrics {

class EventFile;
class ProtoMessage;

struct SummaryWriterOptions {
  std::string comment = "";  ///< suffix of the default folder name
  /// Set when a run is resumed at this step: TensorBoard then hides data of earlier files in the
  /// folder from this step on.
  std::optional<std::int64_t> purge_step = {};
  /// How many events may be buffered, and for how many seconds; checked when one is added.
  std::int64_t max_queue = 10;
  double flush_secs = 120;  ///< how many seconds events may wait in memory
  /// The end of the file's name.
  std::string filename_suffix = "";
};

/// Thread-safe. Tensors of any device and floating or integer type are copied to the host, and the
/// caller waits for the copy. `walltime` is in seconds since 1970, now by default. IoError if
/// writing fails.
class SummaryWriter {
 public:
  using Walltime = std::optional<double>;  ///< seconds since 1970

  /// An empty `log_dir` is runs/<date>_<time>_<host><comment>. ValueError for options out of range.
  explicit SummaryWriter(const std::filesystem::path& log_dir = {},
                         const SummaryWriterOptions& options = {});
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /// The folder of the event files.
  const std::filesystem::path& log_dir() const { return log_dir_; }

  /// Stored as float32, as in TensorBoard.
  void add_scalar(std::string_view tag, double value, std::int64_t step, Walltime walltime = {});
  /// Several curves in one chart: each is written as a separate run, in a folder
  /// <log_dir>/<main_tag>_<tag>, with / replaced by _.
  void add_scalars(std::string_view main_tag, const std::map<std::string, double>& values,
                   std::int64_t step, Walltime walltime = {});
  /// A histogram of `values`, with buckets that grow by a tenth on either side of 0. Non-finite
  /// values are left out. ValueError for an empty tensor.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step,
                     Walltime walltime = {});
  /// An image of 1 to 4 channels, uint8, or of another type in [0, 1], such as the bools of a mask;
  /// values outside are clipped.
  /// `dataformats` names its dimensions: "CHW", "HWC" or "HW". ShapeError, ValueError.
  void add_image(std::string_view tag, const Tensor& image, std::int64_t step,
                 std::string_view dataformats = "CHW", Walltime walltime = {});
  /// Several images as a grid of eight per row: "NCHW" or "NHWC".
  void add_images(std::string_view tag, const Tensor& images, std::int64_t step,
                  std::string_view dataformats = "NCHW", Walltime walltime = {});
  /// Markdown.
  void add_text(std::string_view tag, std::string_view text, std::int64_t step,
                Walltime walltime = {});
  /// The hyperparameters and results of a run, for the table of runs. Written as a separate run, in
  /// the folder <log_dir>/<run_name>, by default the time.
  void add_hparams(const LogRow& hparams, const std::map<std::string, double>& metrics,
                   std::string run_name = "", Walltime walltime = {});

  /// Writes buffered events, including those of the runs of add_scalars.
  void flush();
  /// Same as flush(), for compatibility; more events may be added after it.
  void close() { flush(); }

 private:
  void add(const ProtoMessage& value, std::int64_t step, Walltime walltime);
  EventFile& run(const std::string& name);

  std::filesystem::path log_dir_;
  SummaryWriterOptions options_;
  std::unique_ptr<EventFile> file_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<EventFile>> runs_;
};

}  // namespace ferrite::metrics
