#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "ferrite/tests/paths.h"

TEST_CASE("README.md has at most 150 lines") {
  std::ifstream in(ferrite::test::source_dir() + "/README.md");
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  CHECK(lines > 0);
  CHECK_MESSAGE(lines <= 150, "move what is only for some readers to docs/");
}
