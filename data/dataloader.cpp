#include "ferrite/data/dataloader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/thread_name.h"
#include "ferrite/data/device_feed.h"
#include "ferrite/data/host.h"

namespace ferrite::data {

struct DataLoader::Progress {
  std::int64_t epoch = 0;
  std::int64_t position = 0;     // samples of the epoch handed out
  bool fresh = true;             // begin() starts at epoch and position, not at the next epoch
  std::uint64_t run = 0;         // incremented by begin(): only the newest run reports
  double waited = 0;             // seconds
  std::optional<Stream> copies;  // the stream that copies batches to the device
};

namespace {

/// Adds the time until the end of the scope, in seconds, to a sum.
class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum) {}
  ~Timed() { sum_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

/// One epoch: the remaining batches, and the threads that prepare them.
class DataLoader::Run {
 public:
  Run(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
      std::vector<std::int64_t> order, std::shared_ptr<Progress> progress);
  ~Run();

  /// The next batch, or nothing at the end. Rethrows an exception from its preparation.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  std::span<const std::int64_t> indices(std::int64_t batch) const;
  Slot prepare(std::int64_t batch) const;
  bool is_ready();
  Slot take();
  Batch take_to_device();
  void look_ahead(const Batch& current);
  void work();
  void stop();

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<std::int64_t> order_;
  const std::shared_ptr<Progress> progress_;
  const std::int64_t batch_size_, start_, count_;
  const Epoch epoch_;
  const std::uint64_t id_;
  const bool pin_memory_;
  const Device device_;

  // Used by the caller only, never by workers.
  std::int64_t out_ = 0;       // batches handed to the caller
  std::optional<Slot> ahead_;  // the batch after those, if already taken
  std::optional<DeviceFeed> feed_;

  std::mutex mutex_;
  std::condition_variable space_, ready_;
  std::vector<Slot> slots_;               // batch b is in slot b modulo their number
  std::int64_t started_ = 0, taken_ = 0;  // batches that workers began, and that were taken
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

DataLoader::Run::Run(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
                     std::vector<std::int64_t> order, std::shared_ptr<Progress> progress)
    : dataset_(std::move(dataset)),
      order_(std::move(order)),
      progress_(std::move(progress)),
      batch_size_(options.batch_size),
      start_(std::min(progress_->position, static_cast<std::int64_t>(order_.size()))),
      count_(count_batches(static_cast<std::int64_t>(order_.size()) - start_, batch_size_,
                           options.drop_last ? LastBatch::drop : LastBatch::keep)),
      epoch_{*options.seed, progress_->epoch},
      id_(++progress_->run),
      pin_memory_(options.pin_memory && cuda::is_available()),
      device_(options.device) {
  if (progress_->copies) feed_.emplace(*progress_->copies);
  const auto threads = static_cast<std::size_t>(std::min<std::int64_t>(options.workers, count_));
  slots_.resize(threads * static_cast<std::size_t>(options.prefetch));
  try {
    for (std::size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

DataLoader::Run::~Run() { stop(); }

void DataLoader::Run::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  space_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

std::span<const std::int64_t> DataLoader::Run::indices(std::int64_t batch) const {
  const auto begin = static_cast<std::size_t>(start_ + batch * batch_size_);
  const std::size_t length = std::min(static_cast<std::size_t>(batch_size_), order_.size() - begin);
  return std::span(order_).subspan(begin, length);
}

DataLoader::Run::Slot DataLoader::Run::prepare(std::int64_t batch) const {
  const profiler::detail::LibraryRange range(profiler::Kind::data, "get_batch");
  Slot slot{.ready = true};
  try {
    slot.batch = dataset_->get_batch(indices(batch), epoch_);
    if (!device_.is_host())
      slot.batch = staged(slot.batch, device_);
    else if (pin_memory_)
      slot.batch = {pinned(slot.batch.inputs), pinned(slot.batch.labels)};
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

void DataLoader::Run::work() {
  ferrite::detail::name_thread("data loader");
  const auto slots = static_cast<std::int64_t>(slots_.size());
  std::unique_lock lock(mutex_);
  for (;;) {
    space_.wait(lock, [&] { return stopping_ || started_ == count_ || started_ < taken_ + slots; });
    if (stopping_ || started_ == count_) return;
    const std::int64_t batch = started_++;
    lock.unlock();
    Slot result = prepare(batch);
    lock.lock();
    slots_[static_cast<std::size_t>(batch % slots)] = std::move(result);
    ready_.notify_one();
  }
}

/// Whether take() would not wait for workers: the batch is ready, or there are none.
bool DataLoader::Run::is_ready() {
  if (slots_.empty()) return true;
  std::lock_guard lock(mutex_);
  return slots_[static_cast<std::size_t>(taken_) % slots_.size()].ready;
}

/// The next batch that was not taken yet, or the exception from its preparation.
DataLoader::Run::Slot DataLoader::Run::take() {
  if (slots_.empty()) return prepare(taken_++);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
  ready_.wait(lock, [&] { return slot.ready; });
  Slot result = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  space_.notify_one();
  return result;
}

/// The next batch on the device; also starts as much of the following one as is possible now.
Batch DataLoader::Run::take_to_device() {
  FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(current_stream(device_)), CudaError,
                "data_loader",
                "a batch cannot be fetched while its device's stream is being captured into a "
                "graph; fetch it before the capture");
  Slot slot = ahead_ ? *std::exchange(ahead_, std::nullopt) : take();
  if (slot.error) std::rethrow_exception(std::move(slot.error));
  if (!feed_->has_sent()) feed_->send(slot.batch);
  Batch batch = feed_->receive();
  if (taken_ < count_) look_ahead(batch);
  return batch;
}

/// Queues the copy of the batch after `current` if it is prepared, else reserves memory for it. If
/// memory runs out, both are deferred until the batch is needed.
void DataLoader::Run::look_ahead(const Batch& current) {
  try {
    if (!is_ready()) return feed_->reserve(current);
    ahead_ = take();
    if (ahead_->error) return;
    feed_->send(ahead_->batch);
    ahead_->batch = {};  // its memory is freed once the copy is done
  } catch (const OutOfMemoryError&) {
  }
}

std::optional<Batch> DataLoader::Run::next() {
  const profiler::detail::LibraryRange range(profiler::Kind::data, "next");
  const Timed timed(progress_->waited);
  if (out_ == count_) {
    if (progress_->run == id_)
      *progress_ = {.epoch = epoch_.number + 1, .run = id_, .waited = progress_->waited};
    return {};
  }
  Batch result;
  if (feed_) {
    result = take_to_device();
  } else {
    Slot slot = take();
    if (slot.error) std::rethrow_exception(std::move(slot.error));
    result = std::move(slot.batch);
  }
  ++out_;
  if (progress_->run == id_)
    progress_->position =
        std::min(start_ + out_ * batch_size_, static_cast<std::int64_t>(order_.size()));
  return result;
}

// ---- Iterator

DataLoader::Iterator::Iterator(std::shared_ptr<Run> run)
    : run_(std::move(run)), batch_(std::make_unique<Batch>()) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  // Moved out first: an exception leaves the iterator at the end and stops the workers.
  std::shared_ptr<Run> run = std::move(run_);
  *batch_ = {};
  if (std::optional<Batch> next = run->next()) {
    *batch_ = std::move(*next);
    run_ = std::move(run);
  }
  return *this;
}

// ---- DataLoader

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      progress_(std::make_shared<Progress>()) {
  FERRITE_CHECK(dataset_ != nullptr, ValueError, "data_loader", "expected a data set, got null");
  FERRITE_CHECK(options_.batch_size > 0, ValueError, "data_loader",
                "expected a batch_size of 1 or more, got {}", options_.batch_size);
  FERRITE_CHECK(options_.workers >= 0 && options_.workers <= 1024, ValueError, "data_loader",
                "expected 0 to 1024 workers, got {}", options_.workers);
  FERRITE_CHECK(options_.prefetch > 0 && options_.prefetch <= 1 << 20, ValueError, "data_loader",
                "expected a prefetch of 1 or more, got {}", options_.prefetch);
  FERRITE_CHECK(!(options_.sampler && options_.shuffle), ValueError, "data_loader",
                "a sampler decides on the order: leave .shuffle out");
  if (!options_.seed) options_.seed = default_seed();
  const std::int64_t n = dataset_->size();
  if (options_.sampler)
    sampler_ = options_.sampler;
  else if (options_.shuffle)
    sampler_ = std::make_shared<RandomSampler>(n, RandomSamplerOptions{.seed = options_.seed});
  else
    sampler_ = std::make_shared<SequentialSampler>(n);
}

DataLoader::Iterator DataLoader::begin() {
  if (!progress_->fresh) {
    ++progress_->epoch;
    progress_->position = 0;
  }
  progress_->fresh = false;
  if (!options_.device.is_host() && !progress_->copies)
    progress_->copies = Stream::create(options_.device);
  std::shared_ptr<Run> run;
  {
    const Timed timed(progress_->waited);
    run = std::make_shared<Run>(dataset_, options_, sampler_->order(progress_->epoch), progress_);
  }
  return Iterator(std::move(run));
}

std::int64_t DataLoader::size() const {
  return count_batches(sampler_->size(), options_.batch_size,
                       options_.drop_last ? LastBatch::drop : LastBatch::keep);
}

std::int64_t DataLoader::epoch() const { return progress_->epoch; }

double DataLoader::seconds_waited() const { return progress_->waited; }

void DataLoader::set_epoch(std::int64_t epoch) {
  FERRITE_CHECK(epoch >= 0, ValueError, "data_loader", "expected an epoch of 0 or more, got {}",
                epoch);
  progress_->epoch = epoch;
  progress_->position = 0;
  progress_->fresh = true;
  ++progress_->run;  // a loop that is still running no longer reports
}

StateDict DataLoader::state_dict() const {
  const auto seed = static_cast<std::int64_t>(*options_.seed);
  return {{"epoch", from_vector<std::int64_t>({progress_->epoch}, {})},
          {"position", from_vector<std::int64_t>({progress_->position}, {})},
          {"seed", from_vector<std::int64_t>({seed}, {})}};
}

void DataLoader::load_state_dict(const StateDict& state) {
  const auto epoch = state.at("epoch").item<std::int64_t>();
  const auto position = state.at("position").item<std::int64_t>();
  const auto seed = static_cast<std::uint64_t>(state.at("seed").item<std::int64_t>());
  FERRITE_CHECK(position >= 0 && position <= sampler_->size(), ValueError, "data_loader",
                "position {} is not in an epoch of {} samples; the state is of another data set",
                position, sampler_->size());
  set_epoch(epoch);
  progress_->position = position;
  if (seed == *options_.seed) return;
  options_.seed = seed;
  if (options_.shuffle)
    sampler_ =
        std::make_shared<RandomSampler>(dataset_->size(), RandomSamplerOptions{.seed = seed});
}

}  // namespace ferrite::data
