#include "ferrite/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "ferrite/core/generator.h"
#include "ferrite/core/job_rank.h"
#include "ferrite/data/dataset.h"

namespace ferrite::data {

namespace {

/// The generator for an epoch's order. It uses index -1, which no sample has.
Generator epoch_generator(std::uint64_t seed, std::int64_t epoch) {
  return Epoch{seed, epoch}.generator(-1);
}

void check_size(std::int64_t size, std::string_view op) {
  FERRITE_CHECK(size >= 0, ValueError, op, "expected a size of 0 or more, got {}", size);
}

std::vector<std::int64_t> counting(std::int64_t size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

}  // namespace

StateDict impl::state_of_order(std::int64_t epoch, std::int64_t position,
                               std::optional<std::uint64_t> seed) {
  StateDict state{{"epoch", from_vector<std::int64_t>({epoch}, {})},
                  {"position", from_vector<std::int64_t>({position}, {})}};
  if (seed)
    state.insert_or_assign("order_seed",
                           from_vector<std::int64_t>({static_cast<std::int64_t>(*seed)}, {}));
  return state;
}

void impl::check_seed_of_order(const StateDict& state, std::optional<std::uint64_t> seed,
                               std::string_view op) {
  // Versions before this one did not save it.
  if (!seed || !state.contains("order_seed") || state.at("position").item<std::int64_t>() == 0)
    return;
  const auto saved = static_cast<std::uint64_t>(state.at("order_seed").item<std::int64_t>());
  FERRITE_CHECK(saved == *seed, ValueError, op,
                "the sampler's seed is {}, the state's {}, so that the rest of the epoch would "
                "repeat samples and leave others out: call manual_seed({}) before the sampler is "
                "made, or give it this seed",
                *seed, saved, saved);
}

std::uint64_t default_seed() { return default_generator(Device()).seed(); }

// ---- Sampler

void Sampler::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  order_.reset();
}

std::optional<std::int64_t> Sampler::next() {
  if (!order_) order_ = order(epoch_);
  if (position_ >= static_cast<std::int64_t>(order_->size())) return {};
  return (*order_)[static_cast<std::size_t>(position_++)];
}

StateDict Sampler::state_dict() const { return impl::state_of_order(epoch_, position_, seed()); }

void Sampler::load_state_dict(const StateDict& state) {
  const auto epoch = state.at("epoch").item<std::int64_t>();
  const auto position = state.at("position").item<std::int64_t>();
  FERRITE_CHECK(epoch >= 0 && position >= 0 && position <= max_position(), ValueError, "sampler",
                "epoch {}, position {} is not in an epoch of {} samples; the state is of another "
                "data set",
                epoch, position, size());
  impl::check_seed_of_order(state, seed(), "sampler");
  set_epoch(epoch);
  position_ = std::min(position, size());
}

// ---- SequentialSampler

SequentialSampler::SequentialSampler(std::int64_t size) : size_(size) {
  check_size(size, "sequential_sampler");
}

std::vector<std::int64_t> SequentialSampler::order(std::int64_t) const { return counting(size_); }

// ---- RandomSampler

RandomSampler::RandomSampler(std::int64_t size, const RandomSamplerOptions& options)
    : size_(size),
      num_samples_(options.num_samples.value_or(size)),
      replacement_(options.replacement),
      seed_(options.seed ? *options.seed : default_seed()) {
  check_size(size, "random_sampler");
  check_size(num_samples_, "random_sampler");
  FERRITE_CHECK(size > 0 || num_samples_ == 0, ValueError, "random_sampler",
                "cannot draw {} samples from an empty data set", num_samples_);
}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  Generator random = epoch_generator(seed_, epoch);
  std::vector<std::int64_t> order;
  if (!replacement_) {
    for (std::int64_t left = num_samples_; left > 0; left -= size_) {
      const std::vector<std::int64_t> all = random.permutation(size_);
      order.insert(order.end(), all.begin(), all.begin() + std::min(left, size_));
    }
    return order;
  }
  order.resize(static_cast<std::size_t>(num_samples_));
  for (std::int64_t& index : order)
    index = static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(size_)));
  return order;
}

// ---- WeightedRandomSampler

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                                             const WeightedRandomSamplerOptions& options)
    : weights_(std::move(weights)),
      num_samples_(num_samples),
      replacement_(options.replacement),
      seed_(options.seed ? *options.seed : default_seed()) {
  check_size(num_samples, "weighted_random_sampler");
  std::int64_t positive = 0;
  double sum = 0;
  for (const double w : weights_) {
    FERRITE_CHECK(w >= 0 && std::isfinite(sum += w), ValueError, "weighted_random_sampler",
                  "expected finite weights of 0 or more, got {}", w);
    positive += w > 0 ? 1 : 0;
  }
  FERRITE_CHECK(num_samples == 0 || positive > 0, ValueError, "weighted_random_sampler",
                "expected a weight above 0, got none in {}", weights_.size());
  FERRITE_CHECK(replacement_ || num_samples <= positive, ValueError, "weighted_random_sampler",
                "cannot draw {} samples without replacement from {} of weights above 0",
                num_samples, positive);
}

std::vector<std::int64_t> WeightedRandomSampler::order(std::int64_t epoch) const {
  Generator random = epoch_generator(seed_, epoch);
  const auto n = static_cast<std::size_t>(num_samples_);
  std::vector<std::int64_t> order;
  order.reserve(n);
  if (replacement_) {
    std::vector<double> sums(weights_.size());
    std::inclusive_scan(weights_.begin(), weights_.end(), sums.begin());
    for (std::size_t i = 0; i < n; ++i) {
      // Rounding may give the sum itself: then the last index that has a weight.
      const double at = random.next_double() * sums.back();
      const auto found = at < sums.back() ? std::ranges::upper_bound(sums, at)
                                          : std::ranges::lower_bound(sums, sums.back());
      order.push_back(found - sums.begin());
    }
    return order;
  }
  // The largest of u^(1/w), by their logarithms; each index takes one number, whatever its weight.
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double u = 1 - random.next_double();  // above 0
    if (weights_[i] > 0)
      keys.emplace_back(-std::log(u) / weights_[i], static_cast<std::int64_t>(i));
  }
  std::ranges::sort(keys);
  for (std::size_t i = 0; i < n; ++i) order.push_back(keys[i].second);
  return order;
}

// ---- SubsetRandomSampler

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> indices,
                                         std::optional<std::uint64_t> seed)
    : indices_(std::move(indices)), seed_(seed ? *seed : default_seed()) {}

std::vector<std::int64_t> SubsetRandomSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> order = epoch_generator(seed_, epoch).permutation(size());
  for (std::int64_t& index : order) index = indices_[static_cast<std::size_t>(index)];
  return order;
}

// ---- DistributedSampler

namespace {

JobRank default_job_rank(const DistributedSamplerOptions& options) {
  const auto find = find_job_rank.load();
  const JobRank found = find ? find() : JobRank{0, 0};
  if (found.size > 0) return found;
  const bool has_size = options.num_replicas || options.world_size;
  const char* const job = std::getenv("WORLD_SIZE");
  const bool alone = !has_size && !options.rank && (!job || std::string_view(job) == "1");
  FERRITE_CHECK(alone || (has_size && options.rank), ValueError, "distributed_sampler",
                "there is no process group to take the {} from (WORLD_SIZE is {}): call "
                "init_process_group() first, or pass both .num_replicas and .rank",
                options.rank ? "number of processes"
                : has_size   ? "rank"
                             : "rank and the number of processes",
                job ? job : "not set");
  return {};
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options)
    : size_(size), options_(options) {
  check_size(size, "distributed_sampler");
  const JobRank job = default_job_rank(options);
  FERRITE_CHECK(!options.num_replicas ||
                    options.world_size.value_or(*options.num_replicas) == *options.num_replicas,
                ValueError, "distributed_sampler",
                "num_replicas is {}, but world_size {}; give one of them", *options.num_replicas,
                *options.world_size);
  world_size_ =
      options.num_replicas ? *options.num_replicas : options.world_size.value_or(job.size);
  rank_ = options.rank.value_or(job.rank);
  FERRITE_CHECK(world_size_ > 0 && rank_ >= 0 && rank_ < world_size_, ValueError,
                "distributed_sampler", "expected a rank of 0 to world_size - 1, got rank {} of {}",
                rank_, world_size_);
  FERRITE_CHECK(options.pad || !options.drop_last, ValueError, "distributed_sampler",
                "expected .drop_last = true or .pad = false, not both");
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t whole = size_ / world_size_, left = size_ % world_size_;
  if (options_.drop_last) return whole;
  return whole + (left > (options_.pad ? 0 : rank_) ? 1 : 0);
}

std::int64_t DistributedSampler::max_position() const {
  const bool partial = size_ % world_size_ > 0 && !options_.drop_last;
  return size_ / world_size_ + (partial ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) const {
  const std::vector<std::int64_t> all =
      options_.shuffle ? epoch_generator(options_.seed, epoch).permutation(size_) : counting(size_);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  auto at = static_cast<std::size_t>(rank_);
  for (std::int64_t& index : mine) {
    index = all[at % all.size()];
    at += static_cast<std::size_t>(world_size_);
  }
  return mine;
}

// ---- BatchSampler

std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, LastBatch last) {
  return samples / batch_size + (last == LastBatch::keep && samples % batch_size > 0 ? 1 : 0);
}

BatchSampler::BatchSampler(Given<Sampler> sampler, std::int64_t batch_size, LastBatch last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), last_(last) {
  FERRITE_CHECK(sampler_, ValueError, "batch_sampler", "expected a sampler, got none");
  FERRITE_CHECK(batch_size > 0, ValueError, "batch_sampler",
                "expected a batch size of 1 or more, got {}", batch_size);
}

std::int64_t BatchSampler::size() const {
  return sampler_ ? count_batches(sampler_->size(), batch_size_, last_) : 0;
}

std::optional<std::uint64_t> BatchSampler::seed() const {
  return sampler_ ? sampler_->seed() : std::nullopt;
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches(std::int64_t epoch) const {
  if (!sampler_) return {};
  const std::vector<std::int64_t> order = sampler_->order(epoch);
  const auto step = static_cast<std::size_t>(batch_size_);
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t at = 0; at < order.size(); at += step) {
    const std::size_t end = std::min(at + step, order.size());
    if (end - at < step && last_ == LastBatch::drop) break;
    all.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(at),
                     order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return all;
}

}  // namespace ferrite::data
