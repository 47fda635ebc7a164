// The float32 master of a 16-bit parameter (Micikevicius et al. 2018, "Mixed Precision Training").
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::optim {

class MasterWeight {
 public:
  /// What steps update in the place of the parameter; undefined where it has no master.
  const Tensor& weight() const { return weight_; }

  /// Gives a 16-bit parameter a master with its values, unless it has one.
  void make(const Tensor& parameter, const char* op);
  /// After the parameter was moved: the master moves too. A parameter of more than 16 bits takes
  /// the master's values, and the master ends.
  void follow(const Tensor& parameter, const char* op);
  /// Both take `values`, or the master those of the parameter where they are undefined.
  void load(const Tensor& parameter, const Tensor& values, const char* op);
  /// Frees the float32 copy.
  void drop() { weight_ = grad_ = Tensor(); }

  /// Gives it a gradient with whatever is in it, which weight().grad() then is until drop_grad().
  /// Its memory is kept.
  const Tensor& make_grad(const char* op);
  /// Frees the float32 gradient.
  void drop_grad() const {
    if (weight_.defined()) weight_.set_grad({});
  }

 private:
  Tensor weight_, grad_;
};

}  // namespace ferrite::optim
