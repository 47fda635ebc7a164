// What the programs of examples/ have in common: --help, --version and the form of errors.
#include <sstream>

#include "ferrite/core/version.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("programs: --help has a usage and examples, --version names the program") {
  const TempDir folder;
  for (const std::string name :
       {"char_lm", "classify", "compare_parallel", "data_parallel_from_scratch",
        "data_parallel_shapes", "ddp", "device_info", "elastic", "finetune", "lenet", "mnist",
        "model_parallel", "pipeline", "resnet18"}) {
    CAPTURE(name);
    const Outcome help = run_program(name, {"--help"}, folder.path());
    check_fine(help);
    CHECK(help.out.starts_with("Usage: " + name + " [OPTIONS]"));
    CHECK(contains(help.out, "\nOther options:\n  -h, --help "));
    CHECK_FALSE(contains(help.out, ":{"));
    CHECK_FALSE(contains(help.out, "\n\n\n"));
    std::istringstream options(help.out.substr(0, help.out.find("\nExamples:\n")));
    for (std::string line; std::getline(options, line);) CHECK(line.size() <= 80);
    CHECK(contains(help.out, "\nExamples:\n  "));
    const Outcome version = run_program(name, {"--version"}, folder.path());
    check_fine(version);
    CHECK(version.out == name + " " + ferrite::version() + "\n");
    const Outcome wrong = run_program(name, {"--no-such-option"}, folder.path());
    check_refused(wrong, "error: ", -1);
    CHECK(contains(wrong.err, "\nRun with --help for more information.\n"));
  }
}
