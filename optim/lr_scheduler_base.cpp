#include "ferrite/optim/lr_scheduler_base.h"

#include <fmt/format.h>

namespace ferrite::optim {

std::vector<double> PerGroup::expanded(std::size_t groups, const char* op, const char* what) const {
  FERRITE_CHECK(values_.size() == 1 || values_.size() == groups, ValueError, op,
                "expected one {} or one for each of the {} groups, got {}", what, groups,
                values_.size());
  return values_.size() == groups ? values_ : std::vector<double>(groups, values_[0]);
}

void LRScheduler::start() {
  for (std::size_t g = 0; g < num_groups(); ++g) {
    if (!optimizer_.initial_lr(g)) {
      FERRITE_CHECK(last_epoch_ == -1, ValueError, name_,
                    "group {} has no initial_lr to go on from; load the optimizer's state first",
                    g);
      optimizer_.set_initial_lr(optimizer_.lr(g), g);
    }
    base_lrs_.push_back(*optimizer_.initial_lr(g));
  }
  initial_step();
}

void LRScheduler::initial_step() {
  step_count_ = 0;
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
  apply([this](std::size_t g) { return chained_lr(g); });
  apply_momentum();
}

void LRScheduler::restart() {
  check_groups();
  ++step_count_;
  last_epoch_ = 0;
  apply([this](std::size_t g) { return closed_lr(g); });
  apply_momentum();
}

void LRScheduler::set_rates(const std::vector<double>& rates) {
  for (std::size_t g = 0; g < rates.size(); ++g) optimizer_.set_lr(rates[g], g);
  last_lr_ = rates;
}

void LRScheduler::reset_to_initial_lr() {
  for (std::size_t g = 0; g < num_groups(); ++g)
    optimizer_.set_lr(optimizer_.initial_lr(g).value_or(optimizer_.lr(g)), g);
}

// ---- Checkpoints

namespace {

struct ToTensor {
  Tensor operator()(const double* v) const { return from_vector<double>({*v}, Shape()); }
  Tensor operator()(const std::int64_t* v) const {
    return from_vector<std::int64_t>({*v}, Shape());
  }
  template <class T>
  Tensor operator()(const std::vector<T>* v) const {
    return from_vector(*v, {static_cast<std::int64_t>(v->size())});
  }
};

struct FromTensor {
  const Tensor& t;
  void operator()(double* v) const { *v = t.item<double>(); }
  void operator()(std::int64_t* v) const { *v = t.item<std::int64_t>(); }
  template <class T>
  void operator()(std::vector<T>* v) const {
    *v = t.to_vector<T>();
  }
};

}  // namespace

std::vector<LRScheduler::Field> LRScheduler::all_fields() {
  std::vector<Field> all = {{"last_epoch", &last_epoch_},
                            {"_step_count", &step_count_},
                            {"base_lrs", &base_lrs_},
                            {"_last_lr", &last_lr_}};
  for (Field& f : fields()) all.push_back(std::move(f));
  return all;
}

void LRScheduler::save(StateDict& dict, const std::string& prefix) {
  for (const Field& f : all_fields()) dict.insert(prefix + f.name, std::visit(ToTensor(), f.value));
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
  for (const Field& f : all_fields()) {
    const auto found = dict.find(prefix + f.name);
    FERRITE_CHECK(found != dict.end(), ValueError, name_, "the dict lacks {}{}", prefix, f.name);
    const Tensor& t = found->second;
    const bool is_number = f.value.index() < 2, is_rates = f.value.index() == 2;
    FERRITE_CHECK(!is_number || t.numel() == 1, ValueError, name_,
                  "{}{}: expected one number, got {}", prefix, f.name, t.describe());
    FERRITE_CHECK(!is_rates || t.numel() == static_cast<std::int64_t>(num_groups()), ValueError,
                  name_, "{}{}: expected a number for each of {} groups, got {}", prefix, f.name,
                  num_groups(), t.describe());
    if (!check_only) std::visit(FromTensor{t}, f.value);
  }
  const std::vector<LRScheduler*> members = children();
  const std::string next = fmt::format("{}_schedulers.{}.last_epoch", prefix, members.size());
  FERRITE_CHECK(!dict.contains(next), ValueError, name_,
                "the dict holds more than the {} schedulers of this one", members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i]->load(dict, fmt::format("{}_schedulers.{}.", prefix, i), check_only);
}

void LRScheduler::restore() {
  apply([this](std::size_t g) { return last_lr_[g]; });
  apply_momentum();
}

void LRScheduler::load_state_dict(const StateDict& dict) {
  check_groups();
  for (const bool check_only : {true, false}) load(dict, "", check_only);
  restore();
}

}  // namespace ferrite::optim
