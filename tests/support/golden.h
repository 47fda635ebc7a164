// Results recorded from PyTorch (tests/golden/recorder.py).
#pragma once

#include <filesystem>
#include <string>

#include "ferrite/data/safetensors.h"
#include "ferrite/tests/paths.h"

namespace ferrite::test {

class Golden {
 public:
  /// Opens tests/golden/<family>.safetensors.
  explicit Golden(const std::string& family)
      : tensors_(load(std::filesystem::path(source_dir()) / "tests" / "golden" /
                      (family + ".safetensors"))) {}

  /// The tensor that add(case, name=...) recorded; throws if there is none.
  Tensor get(const std::string& test_case, const std::string& name) const {
    return tensors_.at(test_case + "/" + name);
  }
  bool has(const std::string& test_case, const std::string& name) const {
    return tensors_.contains(test_case + "/" + name);
  }

 private:
  StateDict tensors_;
};

}  // namespace ferrite::test
