#include "ferrite/data/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "ferrite/data/host_transfer.h"
#include "ferrite/data/safetensors_writer.h"

namespace ferrite::data {

namespace {

constexpr const char* kOp = "checkpoint";
constexpr std::string_view kBegin = "step_", kEnd = ".safetensors";

/// The step in a file name; nothing for other files.
std::optional<std::int64_t> step_in(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  std::int64_t step = 0;
  const char *first = name.data() + kBegin.size(), *last = name.data() + name.size() - kEnd.size();
  if (first >= last || *first < '0' || *first > '9') return {};
  const auto [end, error] = std::from_chars(first, last, step);
  if (error != std::errc() || end != last) return {};
  return step;
}

struct Named {
  std::int64_t step;
  std::filesystem::path path;
};

/// By step, judging by the names alone.
std::vector<Named> files_in(const std::filesystem::path& folder) {
  std::vector<Named> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (const auto step = step_in(entry->path())) files.push_back({*step, entry->path()});
  FERRITE_CHECK(!error || error == std::errc::no_such_file_or_directory, IoError, kOp,
                "cannot read the folder '{}': {}", folder.string(), error.message());
  std::ranges::sort(files, {}, &Named::step);
  return files;
}

CheckpointInfo look_at(const Named& file) {
  CheckpointInfo info{.path = file.path, .step = file.step};
  try {
    info.metric = metric_of(load_safetensors_metadata(file.path));
  } catch (const Error& error) {
    info.error = error.what();
  }
  return info;
}

bool has_metric(const CheckpointInfo& info) {
  return info.error.empty() && info.metric && !std::isnan(*info.metric);
}

/// Checkpoints with a metric, best first; ties with the newest first.
std::vector<CheckpointInfo> by_metric(std::vector<CheckpointInfo> infos, MetricGoal mode) {
  std::erase_if(infos, [](const CheckpointInfo& info) { return !has_metric(info); });
  std::ranges::sort(infos, [mode](const CheckpointInfo& a, const CheckpointInfo& b) {
    if (*a.metric != *b.metric) return mode.is_better(*a.metric, *b.metric);
    return a.step > b.step;
  });
  return infos;
}

void remove_file(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  FERRITE_CHECK(!error, IoError, kOp, "cannot remove '{}': {}", path.string(), error.message());
}

}  // namespace

// ---- BackgroundJob

BackgroundJob::~BackgroundJob() {
  try {
    wait();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (...) {
    std::fputs("[checkpoint] the last write failed\n", stderr);
  }
}

void BackgroundJob::start(std::function<void()> job) {
  wait();
  thread_ = std::jthread([this, job = std::move(job)] {
    try {
      job();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void BackgroundJob::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// ---- CheckpointManager

CheckpointManager::CheckpointManager(std::filesystem::path folder, const CheckpointOptions& options)
    : folder_(std::move(folder)), options_(options) {
  FERRITE_CHECK(options.keep >= 0 && options.keep_best >= 0, ValueError, kOp,
                "expected 0 or more checkpoints to keep, got {} and {}", options.keep,
                options.keep_best);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  FERRITE_CHECK(!error, IoError, kOp, "cannot make the folder '{}': {}", folder_.string(),
                error.message());
}

std::filesystem::path CheckpointManager::path_of(std::int64_t step) const {
  return folder_ / fmt::format("{}{:08}{}", kBegin, step, kEnd);
}

/// Locks the folder for this process.
void CheckpointManager::begin_writing() {
  if (!lock_) {
    lock_ = std::make_unique<FolderLock>(folder_, kOp);
    remove_temporary_files(folder_);
  }
  // Moves damaged files that resume() skipped out of the way, but keeps them for inspection.
  for (const std::filesystem::path& path : std::exchange(damaged_, {})) {
    std::filesystem::path aside = path;
    std::error_code error;
    std::filesystem::rename(path, aside += ".damaged", error);
    FERRITE_CHECK(!error || error == std::errc::no_such_file_or_directory, IoError, kOp,
                  "cannot rename '{}': {}", path.string(), error.message());
  }
}

void CheckpointManager::refuse_past(std::int64_t step) const {
  const std::vector<Named> files = files_in(folder_);
  FERRITE_CHECK(files.empty() || files.back().step <= step, ValueError, kOp,
                "'{}' is of a later step than {}: a resumed run would go on from there. For a new "
                "run take another folder; to go back for good call discard_after({})",
                files.back().path.string(), step, step);
}

void CheckpointManager::remove_old(std::int64_t written) const {
  if (options_.keep == 0) return;
  std::vector<CheckpointInfo> infos = list();
  std::erase_if(infos, [](const CheckpointInfo& info) { return !info.error.empty(); });
  std::vector<std::int64_t> kept{written};
  for (std::size_t i = 0; i < infos.size() && i < static_cast<std::size_t>(options_.keep); ++i)
    kept.push_back(infos[infos.size() - 1 - i].step);
  const std::vector<CheckpointInfo> ranked = by_metric(infos, options_.mode);
  for (std::size_t i = 0; i < ranked.size() && i < static_cast<std::size_t>(options_.keep_best);
       ++i)
    kept.push_back(ranked[i].step);
  for (const CheckpointInfo& info : infos)
    if (std::ranges::find(kept, info.step) == kept.end()) remove_file(info.path);
}

void CheckpointManager::save(std::int64_t step, const TrainingState& state,
                             std::optional<double> metric) {
  FERRITE_CHECK(step >= 0, ValueError, kOp, "expected a step of 0 or more, got {}", step);
  job_.wait();
  begin_writing();
  refuse_past(step);
  const std::filesystem::path path = path_of(step);
  Metadata metadata = checkpoint_metadata(state, step, metric);
  const StateDict tensors = state.tensors();
  if (!options_.background) {
    save_safetensors(tensors, path, metadata, {.checksums = options_.checksums});
    remove_old(step);
    return;
  }
  const auto snapshot = std::make_shared<HostSnapshot>(kOp);
  StateDict copies;
  copies.reserve(tensors.size());
  std::vector<std::string> devices;
  for (const auto& [name, tensor] : tensors) {
    copies.insert(name, snapshot->add(tensor));
    devices.push_back(tensor.device().str());
  }
  snapshot->seal();
  job_.start([this, step, path, metadata = std::move(metadata), snapshot,
              copies = std::move(copies), devices = std::move(devices)] {
    snapshot->wait();
    write_safetensors(copies, devices, path, metadata, {.checksums = options_.checksums});
    remove_old(step);
  });
}

void CheckpointManager::wait() { job_.wait(); }

std::vector<CheckpointInfo> CheckpointManager::list() const {
  std::vector<CheckpointInfo> infos;
  for (const Named& file : files_in(folder_)) {
    infos.push_back(look_at(file));
    // Removed in the meantime: the writer has a newer one.
    std::error_code error;
    if (!infos.back().error.empty() && !std::filesystem::exists(file.path, error) && !error)
      infos.pop_back();
  }
  return infos;
}

std::optional<CheckpointInfo> CheckpointManager::latest() const {
  const std::vector<Named> files = files_in(folder_);
  if (files.empty()) return {};
  CheckpointInfo info = look_at(files.back());
  FERRITE_CHECK(info.error.empty(), IoError, kOp, "the newest checkpoint is damaged: {}",
                info.error);
  return info;
}

std::optional<CheckpointInfo> CheckpointManager::best() const {
  const std::vector<CheckpointInfo> ranked = by_metric(list(), options_.mode);
  return ranked.empty() ? std::nullopt : std::optional(ranked.front());
}

std::optional<ResumeReport> CheckpointManager::resume(TrainingState& state,
                                                      const ResumeOptions& options) {
  job_.wait();
  std::vector<Named> files = files_in(folder_);
  if (options.step) {
    std::erase_if(files, [&](const Named& file) { return file.step != *options.step; });
    FERRITE_CHECK(!files.empty(), ValueError, kOp, "'{}' has no checkpoint of step {}",
                  folder_.string(), *options.step);
  }
  std::vector<std::string> skipped;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      ResumeReport report = load_checkpoint(file->path, state, options);
      report.skipped = std::move(skipped);
      return report;
    } catch (const IoError& error) {
      FERRITE_CHECK(options.fall_back, IoError, kOp,
                    "cannot resume from a damaged checkpoint: {}. With .fall_back = true the one "
                    "before it is taken",
                    error.what());
      skipped.emplace_back(error.what());
      damaged_.push_back(file->path);
    }
  }
  FERRITE_CHECK(skipped.empty(), IoError, kOp,
                "all checkpoints in '{}' are damaged; the oldest: {}", folder_.string(),
                skipped.back());
  return {};
}

void CheckpointManager::discard_after(std::int64_t step) {
  job_.wait();
  begin_writing();
  for (const Named& file : files_in(folder_))
    if (file.step > step) remove_file(file.path);
}

}  // namespace ferrite::data
