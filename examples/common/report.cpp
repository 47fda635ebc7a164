#include "ferrite/examples/common/report.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "ferrite/core/error.h"
#include "ferrite/data/file.h"
#include "ferrite/examples/common/folder.h"
#include "ferrite/metrics/curves.h"

namespace examples {

namespace metrics = ferrite::metrics;
using nlohmann::json;

namespace {

void make_folder_of(const std::string& file, std::string_view option) {
  if (file.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  make_writable_folder(folder.empty() ? "." : folder, option);
}

/// A number, or null, which stands for a number that JSON cannot represent.
bool is_figure(const json& value) { return value.is_number() || value.is_null(); }

double as_double(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

metrics::LogRow row_of(const json& epoch) {
  metrics::LogRow row;
  for (const auto& [name, value] : epoch.items()) {
    if (name == "step" || !is_figure(value)) continue;
    if (value.is_number_integer())
      row.emplace_back(name, value.get<std::int64_t>());
    else
      row.emplace_back(name, as_double(value));
  }
  return row;
}

/// TensorBoard groups tags by the part before the slash: train_loss becomes loss/train.
std::string tag_of(const std::string& name) {
  for (const std::string split : {"train", "test"})
    if (name.starts_with(split + "_")) return name.substr(split.size() + 1) + "/" + split;
  return name;
}

void draw(metrics::Curves& curves, const json& epochs, const std::string& label,
          metrics::Scale scale, const std::vector<std::pair<std::string, std::string>>& series) {
  metrics::Curves::Panel* panel = nullptr;
  for (const auto& [name, key] : series) {
    std::vector<double> x, y;
    for (const json& epoch : epochs)
      if (epoch.contains(key) && is_figure(epoch[key])) {
        x.push_back(epoch.at("epoch").get<double>());
        y.push_back(as_double(epoch[key]));
      }
    if (x.empty()) continue;
    if (!panel) panel = &curves.panel(label, scale);
    panel->add(name, std::move(x), std::move(y));
  }
}

}  // namespace

ReportFiles report_files(const TrainingOptions& options) {
  make_folder_of(options.curves, "--curves");
  ReportFiles files{.report = options.report,
                    .log = options.log,
                    .tensorboard = options.tensorboard,
                    .curves = options.curves,
                    .title = fmt::format("{} on {}", options.model, options.dataset)};
  if (files.curves.empty() && !options.report.empty())
    files.curves = std::filesystem::path(options.report).replace_extension(".svg");
  else if (files.curves.empty() && !options.checkpoint_dir.empty())
    files.curves = std::filesystem::path(options.checkpoint_dir) / "curves.svg";
  return files;
}

Report::Report(ReportFiles files) : files_(std::move(files)) {
  make_folder_of(files_.report, "--report");
  make_folder_of(files_.log, "--log");
  if (!files_.tensorboard.empty()) make_writable_folder(files_.tensorboard, "--tensorboard");
}

/// Called with the first epoch, when it is known whether and where the run was resumed.
void Report::open_logs() {
  std::optional<std::int64_t> resumed;
  if (!epochs().empty()) resumed = epochs().back().at("step").get<std::int64_t>();
  if (!files_.log.empty() && !log_) {
    if (files_.log.ends_with(".jsonl"))
      log_ = std::make_unique<metrics::JsonLinesLogger>(
          files_.log, metrics::LoggerOptions{.resume_step = resumed});
    else
      log_ = std::make_unique<metrics::CsvLogger>(files_.log,
                                                  metrics::LoggerOptions{.resume_step = resumed});
  }
  if (!files_.tensorboard.empty() && !tensorboard_) {
    metrics::SummaryWriterOptions options;
    if (resumed) options.purge_step = *resumed + 1;
    tensorboard_ = std::make_unique<metrics::SummaryWriter>(files_.tensorboard, options);
  }
}

void Report::add_epoch(json epoch) {
  open_logs();
  const auto step = epoch.at("step").get<std::int64_t>();
  if (log_) log_->log(step, row_of(epoch));
  if (tensorboard_) {
    for (const auto& [name, value] : epoch.items())
      if (name != "step" && is_figure(value))
        tensorboard_->add_scalar(tag_of(name), as_double(value), step);
    tensorboard_->flush();
  }
  root_["epochs"].push_back(std::move(epoch));
  write();
}

void Report::write() const {
  if (!files_.report.empty()) {
    ferrite::data::AtomicFile file(files_.report, "--report");
    file.write(root_.dump(2) + '\n');
    file.commit();
  }
  if (files_.curves.empty() || epochs().empty()) return;
  metrics::Curves curves(files_.title);
  draw(curves, epochs(), "loss", metrics::Scale::log,
       {{"train", "train_loss"}, {"test", "test_loss"}});
  draw(curves, epochs(), "accuracy", metrics::Scale::linear,
       {{"train", "train_accuracy"}, {"test", "test_accuracy"}});
  draw(curves, epochs(), "learning rate", metrics::Scale::linear, {{"learning rate", "lr"}});
  curves.write(files_.curves);
}

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

}  // namespace examples
