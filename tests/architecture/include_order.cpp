#include "ferrite/tests/architecture/include_order.h"

#include <map>
#include <regex>
#include <set>

#include "ferrite/tests/architecture/source_text.h"

namespace ferrite::test {
namespace {

using Names = std::set<std::string, std::less<>>;

// The folders that each folder may include, besides itself. An unlisted folder may include nothing.
const std::map<std::string, Names, std::less<>> kMayInclude = {
    {"core", {}},
    {"kernels", {"core"}},
    {"autograd", {"core", "kernels"}},
    {"ops", {"core", "kernels", "autograd"}},
    {"nn", {"core", "kernels", "autograd", "ops"}},
    {"optim", {"core", "kernels", "autograd", "ops", "nn"}},
    {"parallel", {"core", "kernels", "autograd", "ops", "nn"}},
    {"data", {"core"}},
    {"metrics", {"core", "kernels", "autograd", "ops", "data"}},
    {"version.h", {"core"}},
    {"ferrite.h",
     {"core", "kernels", "autograd", "ops", "nn", "optim", "parallel", "data", "metrics"}},
    {"examples",
     {"core", "kernels", "autograd", "ops", "nn", "optim", "parallel", "data", "metrics",
      "ferrite.h"}},
    {"benchmarks",
     {"core", "kernels", "autograd", "ops", "nn", "optim", "parallel", "data", "metrics",
      "ferrite.h"}},
};

std::string first_component(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

// Whether `file` belongs to a separate project, which includes its own headers freely.
bool is_user_project(std::string_view file) {
  return file.starts_with("examples/custom_kernel/") || file.starts_with("tests/install/");
}

// Whether an include names a file of this repository, by any path.
bool is_ours(std::string_view path, bool quoted) {
  const std::string head = first_component(path);
  return quoted || head == "ferrite" || head == "tests" || kMayInclude.contains(head);
}

std::string join(const Names& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "nothing else" : out;
}

// Why `file` may not include `path`; empty if it may.
std::string objection(std::string_view file, std::string_view path) {
  if (!path.starts_with("ferrite/"))
    return is_user_project(file) ? "" : "includes of this repository begin with ferrite/";
  const std::string target(path.substr(path.find('/') + 1));
  const std::string from = first_component(file);
  const std::string to = first_component(target);
  if (from == "tests") return "";
  if (from == "examples" && target.starts_with("tests/kit/")) return "";  // the kit is installed
  if (to == "tests") return "only tests include tests/";
  if (to == "examples" && from != "examples") return "only tests include examples/";
  const auto allowed = kMayInclude.find(from);
  if (allowed == kMayInclude.end()) return "";
  if (from == "parallel" && is_process_group_file(file)) {
    if (to == "core" || to == "kernels" || (to == "parallel" && is_process_group_file(target)))
      return "";
    return "process groups stand on core and kernels alone";
  }
  // A component of its own, on nn and data.
  if (target.starts_with("nn/onnx/") && !file.starts_with("nn/onnx/"))
    return "nn/onnx is a component";
  if (to == "data" && file.starts_with("nn/onnx/")) return "";
  if (to == from || allowed->second.contains(to)) return "";
  if (to == "emulator") return "";  // belongs with CUDA's own headers
  return from + " may include " + join(allowed->second);
}

}  // namespace

std::string IncludeViolation::message() const {
  return file + ":" + std::to_string(line) + ": includes " + included + ": " + reason;
}

bool is_process_group_file(std::string_view file) { return file.starts_with("parallel/comm/"); }

std::vector<IncludeViolation> check_includes(std::string_view file, std::string_view text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  static const std::regex kPrivate(R"((unsupported/)?Eigen/.*)");

  std::vector<IncludeViolation> violations;
  const std::string code = without_comments(text);
  int number = 0;
  for (size_t begin = 0; begin < code.size(); ++number) {
    const size_t end = std::min(code.find('\n', begin), code.size());
    const std::string line = code.substr(begin, end - begin);
    begin = end + 1;
    std::smatch match;
    if (!std::regex_match(line, match, kInclude)) continue;

    const std::string path = match[2];
    const std::string owner = first_component(file);
    if (std::regex_match(path, kPrivate)) {
      // core/eigen.h is for users who have Eigen; nothing here includes it.
      if (owner != "kernels" && owner != "tests" && owner != "benchmarks" &&
          file != "core/eigen.h") {
        violations.push_back({std::string(file), number + 1, path, "only kernels use it"});
      }
      continue;
    }
    if (!is_ours(path, match[1] == "\"")) continue;
    const std::string reason = objection(file, path);
    if (!reason.empty()) violations.push_back({std::string(file), number + 1, path, reason});
  }
  return violations;
}

}  // namespace ferrite::test
