#include "ferrite/data/dataloader.h"

#include <algorithm>
#include <vector>

#include "ferrite/data/loader_run.h"

namespace ferrite::data {

namespace {

constexpr std::string_view kLoader = "data_loader";

const impl::IndexedBatches& indexed(const impl::BatchSource& source, std::string_view what) {
  const auto* found = std::get_if<impl::IndexedBatches>(&source);
  FERRITE_CHECK(found, ValueError, kLoader, "an iterable data set has no {}", what);
  return *found;
}

void check_options(const DataLoaderOptions& o) {
  FERRITE_CHECK(o.batch_size > 0, ValueError, kLoader, "expected a batch_size of 1 or more, got {}",
                o.batch_size);
  FERRITE_CHECK(o.num_workers >= 0 && o.num_workers <= 1024, ValueError, kLoader,
                "expected num_workers of 0 to 1024, got {}", o.num_workers);
  FERRITE_CHECK(o.prefetch_factor > 0 && o.prefetch_factor <= 1 << 20, ValueError, kLoader,
                "expected a prefetch_factor of 1 or more, got {}", o.prefetch_factor);
  FERRITE_CHECK(!(o.sampler && o.shuffle), ValueError, kLoader,
                "a sampler decides on the order: leave .shuffle out");
  FERRITE_CHECK(!o.batch_sampler || (!o.sampler && !o.shuffle && !o.drop_last && o.batch_size == 1),
                ValueError, kLoader,
                "a batch_sampler decides on the batches: leave .batch_size, .shuffle, .drop_last "
                "and .sampler out");
}

/// That of a sampler of the user's; the loader's own has the loader's.
std::optional<std::uint64_t> seed_of_order(const DataLoaderOptions& o) {
  if (o.batch_sampler) return o.batch_sampler->seed();
  return o.sampler ? o.sampler->seed() : std::nullopt;
}

}  // namespace

/// The indices of an epoch, how often each came before, and where the batches begin.
struct DataLoaderBase::Order {
  std::vector<std::int64_t> indices, repeats, bounds;
};

DataLoaderBase::DataLoaderBase(impl::BatchSource source, DataLoaderOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      progress_(std::make_shared<impl::LoaderProgress>()) {
  check_options(options_);
  if (const auto* streams = std::get_if<impl::StreamedBatches>(&source_)) {
    FERRITE_CHECK(!options_.sampler && !options_.batch_sampler && !options_.shuffle, ValueError,
                  kLoader,
                  "an iterable data set decides on its order: leave .shuffle, .sampler and "
                  ".batch_sampler out");
    FERRITE_CHECK(streams->shards > 0, ValueError, kLoader,
                  "expected an iterable data set of 1 shard or more, got {}", streams->shards);
  }
  if (!options_.seed) options_.seed = default_seed();
}

Given<Sampler> DataLoaderBase::sampler() const {
  if (options_.sampler) return options_.sampler;
  const std::int64_t n = dataset().size();
  if (options_.shuffle) return RandomSampler(n, {.seed = options_.seed});
  return SequentialSampler(n);
}

/// The rest of the epoch.
DataLoaderBase::Order DataLoaderBase::order() const {
  Order order;
  if (options_.batch_sampler) {
    order.bounds.push_back(0);
    for (const auto& batch : options_.batch_sampler->batches(progress_->epoch)) {
      FERRITE_CHECK(!batch.empty(), ValueError, kLoader,
                    "expected batches of 1 index or more from the batch_sampler, got an empty one");
      order.indices.insert(order.indices.end(), batch.begin(), batch.end());
      order.bounds.push_back(static_cast<std::int64_t>(order.indices.size()));
    }
    const auto first = std::ranges::lower_bound(order.bounds, progress_->start);
    FERRITE_CHECK(first != order.bounds.end() && *first == progress_->start, ValueError, kLoader,
                  "position {} is not between two batches of the epoch; the state is of another "
                  "batch_sampler",
                  progress_->start);
    order.bounds.erase(order.bounds.begin(), first);
    order.repeats = impl::count_repeats(order.indices);
    return order;
  }
  order.indices = sampler()->order(progress_->epoch);
  if (options_.sampler) order.repeats = impl::count_repeats(order.indices);
  const auto n = static_cast<std::int64_t>(order.indices.size());
  std::int64_t at = std::min(progress_->start, n);
  order.bounds.push_back(at);
  for (; at + options_.batch_size <= n; at += options_.batch_size)
    order.bounds.push_back(at + options_.batch_size);
  if (at < n && !options_.drop_last) order.bounds.push_back(n);
  return order;
}

std::shared_ptr<impl::LoaderRun> DataLoaderBase::start() {
  const impl::Timed timed(progress_->waited);
  if (!progress_->fresh) {
    ++progress_->epoch;
    progress_->start = 0;
    progress_->fresh = true;
  }
  progress_->position = progress_->start;
  if (!options_.device.is_host() && !progress_->copies)
    progress_->copies = Stream::create(options_.device);
  const Epoch epoch{*options_.seed, progress_->epoch};
  if (const auto* streams = std::get_if<impl::StreamedBatches>(&source_)) {
    const std::int64_t skip = progress_->start;
    auto plan = std::make_unique<impl::StreamPlan>(
        *streams, epoch, impl::StreamPlan::Options{options_.batch_size, options_.drop_last, skip});
    return std::make_shared<impl::LoaderRun>(std::move(plan), skip, options_, progress_);
  }
  Order order = this->order();
  auto plan = std::make_unique<impl::IndexPlan>(std::get<impl::IndexedBatches>(source_), epoch,
                                                std::move(order.indices), std::move(order.repeats),
                                                std::move(order.bounds));
  return std::make_shared<impl::LoaderRun>(std::move(plan), 0, options_, progress_);
}

std::int64_t DataLoaderBase::size() const {
  indexed(source_, "size that is known before it is read");
  if (options_.batch_sampler) return options_.batch_sampler->size();
  return count_batches(sampler()->size(), options_.batch_size,
                       options_.drop_last ? LastBatch::drop : LastBatch::keep);
}

const AnyDataset& DataLoaderBase::dataset() const { return *indexed(source_, "index").dataset; }

std::int64_t DataLoaderBase::epoch() const { return progress_->epoch; }

double DataLoaderBase::seconds_waited() const { return progress_->waited; }

void DataLoaderBase::set_epoch(std::int64_t epoch) {
  FERRITE_CHECK(epoch >= 0, ValueError, kLoader, "expected an epoch of 0 or more, got {}", epoch);
  progress_->epoch = epoch;
  progress_->start = progress_->position = 0;
  progress_->fresh = true;
  ++progress_->run;  // a loop that is still running no longer reports
}

StateDict DataLoaderBase::state_dict() const {
  StateDict state =
      impl::state_of_order(progress_->epoch, progress_->position, seed_of_order(options_));
  const auto seed = static_cast<std::int64_t>(*options_.seed);
  state.insert_or_assign("seed", from_vector<std::int64_t>({seed}, {}));
  return state;
}

void DataLoaderBase::load_state_dict(const StateDict& state) {
  const auto epoch = state.at("epoch").item<std::int64_t>();
  const auto position = state.at("position").item<std::int64_t>();
  const auto seed = static_cast<std::uint64_t>(state.at("seed").item<std::int64_t>());
  FERRITE_CHECK(position >= 0, ValueError, kLoader, "expected a position of 0 or more, got {}",
                position);
  if (!is_iterable() && !options_.batch_sampler) {
    const Given<Sampler> used = sampler();
    FERRITE_CHECK(position <= used->max_position(), ValueError, kLoader,
                  "position {} is not in an epoch of {} samples; the state is of another data set",
                  position, used->size());
  }
  impl::check_seed_of_order(state, seed_of_order(options_), kLoader);
  set_epoch(epoch);
  progress_->start = progress_->position = position;
  options_.seed = seed;
}

namespace impl {

LoaderIterator::LoaderIterator(std::shared_ptr<LoaderRun> run) : run_(std::move(run)) { advance(); }

void LoaderIterator::advance() {
  // Moved out first: an exception leaves the iterator at the end and stops the workers.
  std::shared_ptr<LoaderRun> run = std::move(run_);
  batch_.reset();
  batch_ = run->next();
  if (batch_) run_ = std::move(run);
}

void LoaderIterator::take_back() const { run_->take_back(); }

}  // namespace impl

}  // namespace ferrite::data
