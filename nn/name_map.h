// Loading weights whose tensors have other names: rules that turn the names of a file into those of
// a module.
//
//   const auto report = nn::load_state_dict(model, load("moco.pth"),
//                                           nn::NameMap()
//                                               .unwrap()
//                                               .prefix("encoder_q.", "backbone.")
//                                               .exact("head.w", "fc.weight")
//                                               .regex(R"(block(\d+)_conv)", "blocks.$1.conv")
//                                               .drop("queue.*"),
//                                           {.strict = false});
//   std::cout << report.str();
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

/// What load_state_dict() with a NameMap did.
struct NameMapReport {
  /// A name of the file, and the module's name for it.
  struct Match {
    std::string from, to;  ///< in the dict, in the module
  };
  /// A tensor whose shape differs from the module's.
  struct Mismatch {
    std::string from;  ///< the name in the file
    std::string to;    ///< the name in the module
    Shape expected;    ///< the shape of the module's tensor
    Shape got;         ///< the shape of the file's tensor
  };
  std::vector<Match> matched;         ///< loaded, in the module's order
  std::vector<std::string> missing;   ///< names of the module that the dict does not have
  std::vector<Match> unexpected;      ///< what is not in the module under its new name
  std::vector<Mismatch> mismatched;   ///< of different shapes, not loaded
  std::vector<std::string> left_out;  ///< names in the dict that drop() or unwrap() left out
  /// Whether every tensor found its place.
  bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// One tensor a line, "module.conv1.weight -> conv1.weight", under a heading for each list.
  std::string str() const;
};

/// Rules, applied in the order in which they were added, each to the name that those before it
/// made. Cheap to copy.
class NameMap {
 public:
  /// This name becomes the other.
  NameMap& exact(std::string from, std::string to);
  /// Pairs of names, of which each name takes at most one.
  NameMap& table(const std::vector<std::pair<std::string, std::string>>& names);
  /// Names that begin with `from` begin with `to`: prefix("head.", "fc."), prefix("backbone.", ""),
  /// prefix("", "backbone.").
  NameMap& prefix(std::string from, std::string to);
  /// Every match of the expression (std::regex, ECMAScript) becomes `to`, in which $1 is the first
  /// group. ValueError if it is not valid; when it is applied, for names of more than 1,000 bytes.
  NameMap& regex(const std::string& pattern, std::string to);
  /// Leaves out names that the whole expression matches: drop("optimizer[.].*").
  NameMap& drop(const std::string& pattern);
  /// All rules of the other.
  NameMap& then(const NameMap& other);

  /// Removes what training programs put in front of all names: "module." (DataParallel),
  /// "_orig_mod." (torch.compile), "model.", "state_dict.", "encoder." and so on, several of them
  /// too; and the wrappers that PyTorch inserts between. Of the prefixes that are found, it takes
  /// the one after which, with the rules that follow, most names are the module's (that of words
  /// that are listed first if several are equal, and none if that is as good), and leaves out names
  /// that do not have it: "optimizer.state.0.step" beside "model.fc.weight".
  NameMap& unwrap() { return unwrap(usual_wrappers()); }
  NameMap& unwrap(std::vector<std::string> words);
  /// The words that unwrap() strips by default.
  static std::vector<std::string> usual_wrappers();

  /// Checkpoints of timm: unwrap(), which prefers the averaged weights ("state_dict_ema") as timm
  /// does. The names that timm 1.0 gives to its ResNets (resnet18 to resnet152, wide_resnet*,
  /// resnext*) are torchvision's, which are Ferrite's; those with another stem, downsampling or
  /// attention ("resnet50d", "seresnet50") are other networks, and do not load.
  static NameMap timm();
  /// ResNetForImageClassification and ResNetModel of Hugging Face's transformers
  /// ("microsoft/resnet-50"): "resnet.encoder.stages.0.layers.1.layer.2.convolution.weight" is
  /// "layer1.1.conv3.weight".
  static NameMap transformers_resnet();

  /// What the names become for this module; nothing for those that are left out.
  std::vector<std::optional<std::string>> names(const std::vector<std::string>& from,
                                                const Module& module) const;

 private:
  using Names = std::vector<std::optional<std::string>>;
  /// Whether a name is one of the module's.
  using Known = std::function<bool(const std::string&)>;
  using Rest = std::function<void(Names& names)>;
  /// Changes the names; `rest` applies the rules that follow.
  using Rule = std::function<void(Names& names, const Known& known, const Rest& rest)>;

  NameMap& each(std::function<std::optional<std::string>(const std::string&)> f);
  void run(Names& names, const Known& known, std::size_t first) const;

  std::vector<std::shared_ptr<const Rule>> rules_;
};

/// module.load_state_dict() of the dict under other names. ValueError if two tensors get one name,
/// or, with options.strict, for missing and unexpected names; ShapeError unless
/// options.skip_mismatched. Messages are the report's. After an error, nothing has been copied.
/// `options` has no prefixes (ValueError): they are rules.
NameMapReport load_state_dict(Module& module, const StateDict& dict, const NameMap& map,
                              const LoadOptions& options = {});

}  // namespace ferrite::nn
