#include "ferrite/optim/lr_scheduler_base.h"

#include <fmt/format.h>

namespace ferrite::optim {

void LRScheduler::start() {
  check_fields(fields(), name_);
  for (std::size_t g = 0; g < num_groups(); ++g) {
    if (!optimizer_.initial_lr(g)) {
      FERRITE_CHECK(last_epoch_ == -1, ValueError, name_,
                    "group {} has no initial_lr to go on from; load the optimizer's state first",
                    g);
      optimizer_.set_initial_lr(optimizer_.lr(g), g);
    }
    base_lrs_.push_back(*optimizer_.initial_lr(g));
  }
  step();
}

void LRScheduler::restart(std::int64_t step_count) {
  last_epoch_ = -1;
  step_count_ = step_count;
  step();
}

void LRScheduler::check_groups() const {
  FERRITE_CHECK(base_lrs_.size() == num_groups(), ValueError, name_,
                "the scheduler was made for {} groups, the optimizer has {}", base_lrs_.size(),
                num_groups());
}

void LRScheduler::step() {
  check_groups();
  check_epoch(last_epoch_ + 1);
  ++step_count_;
  ++last_epoch_;
  set_rates();
}

void LRScheduler::set_rates() {
  std::vector<double> rates;
  for (std::size_t g = 0; g < num_groups(); ++g) rates.push_back(next_lr(g, optimizer_.lr(g)));
  last_lr_ = std::move(rates);
  LRScheduler::restore();
}

void LRScheduler::restore() {
  for (std::size_t g = 0; g < num_groups(); ++g) {
    optimizer_.set_lr(last_lr_[g], g);
    if (const auto momentum = next_momentum(g)) optimizer_.set_momentum(*momentum, g);
  }
}

void LRScheduler::reset_to_initial_lr() {
  for (std::size_t g = 0; g < num_groups(); ++g)
    optimizer_.set_lr(optimizer_.initial_lr(g).value_or(optimizer_.lr(g)), g);
}

// ---- Checkpoints

Fields LRScheduler::all_fields() {
  Fields all = {{"last_epoch", &last_epoch_},
                {"_step_count", &step_count_},
                {"base_lrs", &base_lrs_},
                {"_last_lr", &last_lr_}};
  for (const Field& f : fields()) all.push_back(f);
  return all;
}

void LRScheduler::save(StateDict& dict, const std::string& prefix) {
  save_fields(all_fields(), dict, prefix);
  const std::vector<LRScheduler*> members = children();
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i]->save(dict, fmt::format("{}_schedulers.{}.", prefix, i));
}

StateDict LRScheduler::state_dict() const {
  StateDict dict;
  const_cast<LRScheduler*>(this)->save(dict, "");
  return dict;
}

void LRScheduler::load(const StateDict& dict, const std::string& prefix, bool check_only) {
  load_fields(all_fields(), dict, prefix, name_, check_only);
  const std::vector<LRScheduler*> members = children();
  const std::string next = fmt::format("{}_schedulers.{}.last_epoch", prefix, members.size());
  FERRITE_CHECK(!dict.contains(next), ValueError, name_,
                "the dict holds more than the {} schedulers of this one", members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i]->load(dict, fmt::format("{}_schedulers.{}.", prefix, i), check_only);
}

void LRScheduler::load_state_dict(const StateDict& dict) {
  check_groups();
  for (const bool check_only : {true, false}) load(dict, "", check_only);
  restore();
}

}  // namespace ferrite::optim
