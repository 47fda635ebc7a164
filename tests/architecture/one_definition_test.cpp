#include "ferrite/tests/architecture/one_definition.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using ferrite::test::defined_types;
using ferrite::test::doubled_definitions;
using ferrite::test::SourceFile;
using Names = std::vector<std::string>;

TEST_CASE("no program defines a type twice") {
  const auto files = ferrite::test::source_files();
  size_t types = 0;
  for (const auto& [path, text] : files) types += defined_types(text).size();
  CHECK(types > 500);
  for (const std::string& message : doubled_definitions(files)) FAIL_CHECK(message);
}

TEST_CASE("types are found with their namespaces") {
  CHECK(defined_types("namespace a::b {\nclass X final : public Y {\n};\nstruct Z;\n}\n") ==
        Names{"a::b::X"});
  CHECK(defined_types("namespace a { namespace b { enum class E : int { x }; } struct S {}; }") ==
        Names{"a::b::E", "a::S"});
  CHECK(defined_types("namespace a { namespace { struct S {}; } }").empty());
  CHECK(defined_types("struct Outer { struct Inner {}; void f() { struct Local {}; } };") ==
        Names{"Outer"});
  CHECK(defined_types("template <class T>\nstruct S {};\ntemplate <>\nstruct S<int> {};") ==
        Names{"S"});
  CHECK(defined_types("// struct A {};\nauto s = \"struct B {\";\n#define C struct D {\nint x;")
            .empty());
}

TEST_CASE("a doubled definition names the type and both files") {
  const std::string text = "namespace ferrite { struct Gate {}; }";
  const auto found = [&](const std::string& a, const std::string& b) {
    return doubled_definitions(std::vector<SourceFile>{{a, text}, {b, text}});
  };
  CHECK(found("core/a.h", "nn/b.h") == Names{"ferrite::Gate: defined in core/a.h and in nn/b.h"});
  CHECK(found("nn/a.h", "tests/nn/b.h") ==
        Names{"ferrite::Gate: defined in nn/a.h and in tests/nn/b.h"});
  CHECK(found("tests/nn/a.h", "tests/nn/b_test.cpp").size() == 1);
  for (const std::string shared : {"tests/support", "tests/kit", "examples/common"}) {
    CAPTURE(shared);
    CHECK(found(shared + "/a.h", "tests/ops/b.h") ==
          Names{"ferrite::Gate: defined in " + shared + "/a.h and in tests/ops/b.h"});
    CHECK(found("tests/ops/a.h", shared + "/b.h").size() == 1);
    CHECK(found("examples/ddp/a.h", shared + "/b.h").size() == 1);
    CHECK(found("core/a.h", shared + "/b.h").size() == 1);
    CHECK(found(shared + "/a.h", "tests/support/b.h").size() == 1);
  }
  CHECK(found("tests/nn/a.h", "tests/ops/b.h").empty());
  CHECK(found("examples/lenet/a.h", "examples/ddp/a.h").empty());
}
