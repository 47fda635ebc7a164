// Master weights of optim::Optimizer.
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/optim/capture.h"
#include "ferrite/optim/layout.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

namespace {

bool has_16_bits(const Tensor& t) { return t.dtype() == kFloat16 || t.dtype() == kBFloat16; }

Tensor float32_like(const Tensor& t) {
  return empty(
      t.shape(),
      {.dtype = kFloat32, .device = t.device(), .memory_format = t.suggest_memory_format()});
}

void copy_values(const Tensor& to, const Tensor& from) {
  kernels::copy(current_stream(to.device()), to, from.to(to.device()));
  to.storage()->bump_version("master_weights");
}

}  // namespace

void Optimizer::use_master_weights() {
  NoGradGuard guard;
  for (Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Tensor& p = g.parameters[i];
      Tensor& master = g.states[i].master;
      if (!has_16_bits(p) || master.defined()) continue;
      refuse_new_state(p.device(), name_, "the master of a parameter");
      copy_values(master = float32_like(p), p);
    }
}

bool Optimizer::has_master_weights() const {
  for (const Group& g : groups_)
    for (const ParameterState& s : g.states)
      if (s.master.defined()) return true;
  return false;
}

std::vector<Tensor> Optimizer::master_parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i)
      all.push_back(g.states[i].master.defined() ? g.states[i].master : g.parameters[i]);
  return all;
}

void Optimizer::reset_master_weights() {
  NoGradGuard guard;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i) {
      prepare_master(g, i);
      if (groups_[g].states[i].master.defined())
        copy_values(groups_[g].states[i].master, groups_[g].parameters[i]);
    }
}

/// The master of a parameter that was moved moves after it; one of more bits needs none.
void Optimizer::prepare_master(std::size_t group, std::size_t i) {
  const Tensor& p = groups_[group].parameters[i];
  ParameterState& s = groups_[group].states[i];
  if (!s.master.defined()) return;
  if (!has_16_bits(p)) {
    copy_values(p, s.master);
    s.master = s.master_grad = Tensor();
    return;
  }
  const MemoryFormat format = p.suggest_memory_format();
  if (s.master.device() == p.device() && s.master.is_contiguous(format)) [[likely]]
    return;
  refuse_new_state(p.device(), name_, "the master of a parameter");
  const Tensor moved = float32_like(p);
  copy_values(moved, s.master);
  s.master.set_grad({});
  s.master.set_data(moved);  // whoever has it keeps it
  s.master_grad = Tensor();
}

std::vector<Optimizer::MasterGradient> Optimizer::make_master_gradients() {
  NoGradGuard guard;
  std::vector<MasterGradient> gradients;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i) {
      const Tensor from = groups_[g].parameters[i].grad();
      if (!from.defined()) continue;
      prepare_master(g, i);
      ParameterState& s = groups_[g].states[i];
      if (!s.master.defined()) continue;
      if (!s.master_grad.defined()) {
        refuse_new_state(from.device(), name_, "the gradient of a master");
        s.master_grad = float32_like(s.master);
      }
      s.master.set_grad(s.master_grad);
      gradients.push_back({laid_out_like(from, s.master), s.master_grad});
    }
  return gradients;
}

void Optimizer::drop_master_gradients() {
  for (const Group& g : groups_)
    for (const ParameterState& s : g.states)
      if (s.master.defined()) s.master.set_grad({});
}

/// `loaded` may be undefined.
void Optimizer::take_master(std::size_t group, std::size_t i, const Tensor& loaded) {
  prepare_master(group, i);
  const Tensor& p = groups_[group].parameters[i];
  const Tensor& master = groups_[group].states[i].master;
  if (!master.defined()) return;
  copy_values(master, loaded.defined() ? loaded : p);
  if (loaded.defined()) copy_values(p, master);
}

}  // namespace ferrite::optim
