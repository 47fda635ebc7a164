#include "data/dataloader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/host.h"

namespace ferrite::data {

struct DataLoader::Progress {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // samples of it handed out
  bool fresh = true;          // begin() shall start at epoch and position, not at the next epoch
  std::uint64_t run = 0;      // counts begin(): only the newest run reports
};

/// One epoch: the batches still to come, and the threads that prepare them.
class DataLoader::Run {
 public:
  Run(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
      std::vector<std::int64_t> order, std::shared_ptr<Progress> progress);
  ~Run();

  /// The next batch, or nothing at the end. Rethrows what preparing it threw.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  std::span<const std::int64_t> indices(std::int64_t batch) const;
  Batch prepare(std::int64_t batch) const;
  Batch take(std::int64_t batch);
  void work();
  void stop();

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<std::int64_t> order_;
  const std::shared_ptr<Progress> progress_;
  const std::int64_t batch_size_, start_, count_;
  const Epoch epoch_;
  const std::uint64_t id_;
  const bool pin_memory_;

  std::mutex mutex_;
  std::condition_variable space_, ready_;
  std::vector<Slot> slots_;             // batch b lies in slot b modulo their number
  std::int64_t started_ = 0, out_ = 0;  // batches that workers took, and that the caller got
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
      pin_memory_(options.pin_memory && cuda::is_available()) {
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

Batch DataLoader::Run::prepare(std::int64_t batch) const {
  Batch result = dataset_->get_batch(indices(batch), epoch_);
  if (pin_memory_) result = {pinned(result.inputs), pinned(result.labels)};
  return result;
}

void DataLoader::Run::work() {
  const auto slots = static_cast<std::int64_t>(slots_.size());
  std::unique_lock lock(mutex_);
  for (;;) {
    space_.wait(lock, [&] { return stopping_ || started_ == count_ || started_ < out_ + slots; });
    if (stopping_ || started_ == count_) return;
    const std::int64_t batch = started_++;
    lock.unlock();
    Slot result;
    try {
      result.batch = prepare(batch);
    } catch (...) {
      result.error = std::current_exception();
    }
    result.ready = true;
    lock.lock();
    slots_[static_cast<std::size_t>(batch % slots)] = std::move(result);
    ready_.notify_one();
  }
}

Batch DataLoader::Run::take(std::int64_t batch) {
  if (slots_.empty()) return prepare(batch);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(batch) % slots_.size()];
  ready_.wait(lock, [&] { return slot.ready; });
  Slot result = std::exchange(slot, {});
  out_ = batch + 1;
  lock.unlock();
  space_.notify_one();
  if (result.error) std::rethrow_exception(std::move(result.error));
  return std::move(result.batch);
}

std::optional<Batch> DataLoader::Run::next() {
  // Workers write neither out_ nor progress_.
  if (out_ == count_) {
    if (progress_->run == id_) *progress_ = {.epoch = epoch_.number + 1, .run = id_};
    return {};
  }
  const std::int64_t batch = out_;
  Batch result = take(batch);
  if (slots_.empty()) out_ = batch + 1;
  if (progress_->run == id_)
    progress_->position =
        std::min(start_ + (batch + 1) * batch_size_, static_cast<std::int64_t>(order_.size()));
  return result;
}

// ---- Iterator

DataLoader::Iterator::Iterator(std::shared_ptr<Run> run)
    : run_(std::move(run)), batch_(std::make_unique<Batch>()) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  // Taken out first: an exception leaves the iterator at the end and stops the workers.
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
  return Iterator(
      std::make_shared<Run>(dataset_, options_, sampler_->order(progress_->epoch), progress_));
}

std::int64_t DataLoader::size() const {
  return count_batches(sampler_->size(), options_.batch_size,
                       options_.drop_last ? LastBatch::drop : LastBatch::keep);
}

std::int64_t DataLoader::epoch() const { return progress_->epoch; }

void DataLoader::set_epoch(std::int64_t epoch) {
  FERRITE_CHECK(epoch >= 0, ValueError, "data_loader", "expected an epoch of 0 or more, got {}",
                epoch);
  progress_->epoch = epoch;
  progress_->position = 0;
  progress_->fresh = true;
  ++progress_->run;  // a loop that still runs no longer reports
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
