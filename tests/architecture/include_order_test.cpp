#include "ferrite/tests/architecture/include_order.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ferrite/tests/architecture/source_text.h"

using ferrite::test::check_includes;
using ferrite::test::is_process_group_file;

namespace {

bool allows(const std::string& file, const std::string& include) {
  return check_includes(file, "#include \"ferrite/" + include + "\"\n").empty();
}

}  // namespace

TEST_CASE("every include of the source tree follows the dependency order") {
  const auto files = ferrite::test::source_files();
  REQUIRE(files.size() >= 3);  // at least this test's own
  for (const auto& [path, text] : files) {
    CAPTURE(path);
    REQUIRE_FALSE(text.empty());
    for (const auto& violation : check_includes(path, text)) FAIL_CHECK(violation.message());
  }
}

TEST_CASE("each layer may include the layers under it and none above") {
  const std::vector<std::string> order = {"core", "kernels", "autograd", "ops", "nn"};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j < order.size(); ++j) {
      CAPTURE(order[i]);
      CAPTURE(order[j]);
      CHECK(allows(order[i] + "/a.cpp", order[j] + "/b.h") == (j <= i));
    }
    for (const std::string top : {"optim", "parallel"}) {
      CHECK(allows(top + "/a.cpp", order[i] + "/b.h"));
      CHECK_FALSE(allows(order[i] + "/a.cpp", top + "/b.h"));
    }
    CHECK(allows("examples/lenet/main.cpp", order[i] + "/b.h"));
    CHECK(allows("ferrite.h", order[i] + "/b.h"));
    CHECK_FALSE(allows(order[i] + "/a.cpp", "data/b.h"));
    CHECK(allows("data/a.cpp", order[i] + "/b.h") == (i == 0));
    CHECK(allows("metrics/a.cpp", order[i] + "/b.h") == (order[i] != "nn"));
    CHECK_FALSE(allows(order[i] + "/a.cpp", "metrics/b.h"));
  }
  CHECK_FALSE(allows("optim/a.cpp", "parallel/b.h"));
  CHECK_FALSE(allows("parallel/a.cpp", "optim/b.h"));
  CHECK_FALSE(allows("parallel/a.cpp", "data/b.h"));
  CHECK_FALSE(allows("optim/a.cpp", "data/b.h"));
  CHECK(allows("metrics/a.cpp", "data/b.h"));
  for (const char* other : {"data", "optim", "parallel"})
    CHECK_FALSE(allows(std::string(other) + "/a.cpp", "metrics/b.h"));
}

TEST_CASE("lower folders must not include tests, examples or the umbrella header") {
  CHECK_FALSE(allows("core/a.cpp", "tests/core/helper.h"));
  CHECK_FALSE(allows("examples/lenet/main.cpp", "tests/core/helper.h"));
  CHECK(allows("examples/custom_kernel/swiglu_test.cpp", "tests/kit/kernel_case.h"));
  CHECK_FALSE(allows("nn/a.cpp", "tests/kit/kernel_case.h"));
  CHECK_FALSE(allows("nn/a.cpp", "examples/common/arguments.h"));
  CHECK_FALSE(allows("ferrite.h", "examples/common/arguments.h"));
  CHECK_FALSE(allows("nn/a.cpp", "ferrite.h"));
  CHECK(allows("examples/lenet/main.cpp", "ferrite.h"));
  CHECK(allows("examples/lenet/main.cpp", "examples/common/arguments.h"));
  CHECK(allows("tests/nn/a_test.cpp", "examples/common/arguments.h"));
  CHECK(allows("tests/nn/a_test.cpp", "ferrite.h"));
  CHECK(allows("tests/core/a_test.cpp", "parallel/b.h"));
}

TEST_CASE("process groups stand on core and kernels alone") {
  for (const char* file : {"parallel/comm/process_group.cpp", "parallel/comm/gloo/group.h",
                           "parallel/comm/no_nccl/nccl.cpp"}) {
    CAPTURE(file);
    CHECK(is_process_group_file(file));
    CHECK(allows(file, "core/tensor.h"));
    CHECK(allows(file, "kernels/elementwise.h"));  // reductions are arithmetic
    CHECK(allows(file, "parallel/comm/process_group.h"));
    CHECK_FALSE(allows(file, "ops/ops.h"));
    CHECK_FALSE(allows(file, "parallel/data_parallel.h"));
  }
  CHECK_FALSE(is_process_group_file("parallel/data_parallel.cpp"));
  CHECK_FALSE(is_process_group_file("core/process_group.h"));
  CHECK(allows("parallel/data_parallel.cpp", "parallel/comm/process_group.h"));
  CHECK(allows("parallel/data_parallel.cpp", "nn/module.h"));
}

TEST_CASE("includes begin with ferrite/, but for those of users' projects and of other libraries") {
  const auto found = [](const std::string& file, const std::string& include) {
    return check_includes(file, "#include " + include + "\n").size();
  };
  CHECK(found("nn/conv.cpp", "\"nn/module.h\"") == 1);
  CHECK(found("nn/conv.cpp", "<nn/module.h>") == 1);
  CHECK(found("nn/conv.cpp", "\"module.h\"") == 1);
  CHECK(found("nn/conv.cpp", "\"../ferrite/nn/module.h\"") == 1);
  CHECK(found("examples/lenet/main.cpp", "<ferrite.h>") == 1);
  CHECK(found("examples/lenet/main.cpp", "<ferrite/ferrite.h>") == 0);
  CHECK(found("examples/custom_kernel/swiglu.cpp", "\"swiglu.h\"") == 0);
  CHECK(found("nn/conv.cpp", "<fmt/format.h>") == 0);
}

TEST_CASE("angle brackets and odd spacing count, comments and strings do not") {
  CHECK(check_includes("core/a.h", "#include <ferrite/nn/module.h>\n").size() == 1);
  CHECK(check_includes("core/a.h", "  #  include\t\"ferrite/nn/module.h\"  // why\n").size() == 1);
  CHECK(check_includes("core/a.h", "#include \"ferrite/nn/module.h\"").size() == 1);
  CHECK(check_includes("core/a.h", "// #include \"ferrite/nn/module.h\"\n").empty());
  CHECK(check_includes("core/a.h", "/*\n#include \"ferrite/nn/module.h\"\n*/\n").empty());
  CHECK(check_includes("core/a.h", "auto s = \"#include <ferrite/nn/module.h>\";\n").empty());
  CHECK(check_includes("core/a.h", "auto s = \"/*\";\n#include \"ferrite/nn/module.h\"\n").size() ==
        1);
  CHECK(check_includes("core/a.h", "int n = 1'000;\n#include \"ferrite/nn/module.h\"\n").size() ==
        1);
  CHECK(check_includes("core/a.h", "#include <vector>\n#include <fmt/format.h>\n").empty());
}

TEST_CASE("Eigen stays inside kernels") {
  const auto allows = [](const std::string& file, const std::string& header) {
    return check_includes(file, "#include <" + header + ">\n").empty();
  };
  CHECK(allows("kernels/cpu/matmul.cpp", "Eigen/Core"));
  CHECK_FALSE(allows("core/tensor.h", "Eigen/Core"));
  CHECK(allows("core/eigen.h", "Eigen/Core"));
  CHECK_FALSE(allows("nn/linear.cpp", "unsupported/Eigen/CXX11/Tensor"));
}

TEST_CASE("a violation names the file, the line, the include and the rule") {
  const auto found =
      check_includes("core/tensor.h", "#pragma once\n\n#include \"ferrite/nn/module.h\"\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].message() ==
        "core/tensor.h:3: includes ferrite/nn/module.h: core may include nothing else");
}
