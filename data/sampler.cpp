#include "ferrite/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "ferrite/core/generator.h"
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

StateDict Sampler::state_dict() const {
  return {{"epoch", from_vector<std::int64_t>({epoch_}, {})},
          {"position", from_vector<std::int64_t>({position_}, {})}};
}

void Sampler::load_state_dict(const StateDict& state) {
  const auto epoch = state.at("epoch").item<std::int64_t>();
  const auto position = state.at("position").item<std::int64_t>();
  FERRITE_CHECK(epoch >= 0 && position >= 0 && position <= size(), ValueError, "sampler",
                "epoch {}, position {} is not in an epoch of {} samples; the state is of another "
                "data set",
                epoch, position, size());
  set_epoch(epoch);
  position_ = position;
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
  FERRITE_CHECK(replacement_ || !options.num_samples, ValueError, "random_sampler",
                "num_samples needs .replacement = true");
  FERRITE_CHECK(size > 0 || num_samples_ == 0, ValueError, "random_sampler",
                "cannot draw {} samples from an empty data set", num_samples_);
}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  Generator random = epoch_generator(seed_, epoch);
  if (!replacement_) return random.permutation(size_);
  std::vector<std::int64_t> order(static_cast<std::size_t>(num_samples_));
  for (std::int64_t& index : order)
    index = static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(size_)));
  return order;
}

// ---- DistributedSampler

DistributedSampler::DistributedSampler(std::int64_t size, const DistributedSamplerOptions& options)
    : size_(size), options_(options) {
  check_size(size, "distributed_sampler");
  FERRITE_CHECK(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
                ValueError, "distributed_sampler",
                "expected a rank of 0 to world_size - 1, got rank {} of {}", options.rank,
                options.world_size);
  FERRITE_CHECK(options.pad || !options.drop_last, ValueError, "distributed_sampler",
                "expected .drop_last = true or .pad = false, not both");
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t whole = size_ / options_.world_size, left = size_ % options_.world_size;
  if (options_.drop_last) return whole;
  return whole + (left > (options_.pad ? 0 : options_.rank) ? 1 : 0);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) const {
  const std::vector<std::int64_t> all =
      options_.shuffle ? epoch_generator(options_.seed, epoch).permutation(size_) : counting(size_);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  auto at = static_cast<std::size_t>(options_.rank);
  for (std::int64_t& index : mine) {
    index = all[at % all.size()];
    at += static_cast<std::size_t>(options_.world_size);
  }
  return mine;
}

// ---- BatchSampler

std::int64_t count_batches(std::int64_t samples, std::int64_t batch_size, LastBatch last) {
  return samples / batch_size + (last == LastBatch::keep && samples % batch_size > 0 ? 1 : 0);
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
                           LastBatch last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), last_(last) {
  FERRITE_CHECK(sampler_ != nullptr, ValueError, "batch_sampler", "expected a sampler, got null");
  FERRITE_CHECK(batch_size > 0, ValueError, "batch_sampler",
                "expected a batch size of 1 or more, got {}", batch_size);
}

std::int64_t BatchSampler::size() const {
  return count_batches(sampler_->size(), batch_size_, last_);
}

std::vector<std::int64_t> BatchSampler::next() {
  std::vector<std::int64_t> batch;
  while (static_cast<std::int64_t>(batch.size()) < batch_size_) {
    const std::optional<std::int64_t> index = sampler_->next();
    if (!index) break;
    batch.push_back(*index);
  }
  if (last_ == LastBatch::drop && static_cast<std::int64_t>(batch.size()) < batch_size_)
    batch.clear();
  return batch;
}

}  // namespace ferrite::data
