// The main function of every test program. Beyond doctest's own it fails a run without any test (a
// filter that matches no test must not look like success), and it poisons newly allocated memory,
// so that an element that a kernel forgot to write is NaN.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "ferrite/core/allocator.h"
#include "ferrite/core/device.h"

namespace {

unsigned matched = 0;

struct CountTests : doctest::IReporter {
  explicit CountTests(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    matched = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("count_tests", 1, CountTests);

}  // namespace

int main(int argc, char** argv) {
  // Results are compared with references in float64 (kernels/vendor.h).
  setenv("FERRITE_TF32", "0", /*overwrite=*/0);
  using namespace ferrite;
  allocator(Device()).set_poison(true);
  for (int i = 0; i < cuda::device_count(); ++i)
    allocator(Device(DeviceType::cuda, i)).set_poison(true);
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;  // --list-test-cases, --help and the like
  if (result == 0 && matched == 0) {
    std::fputs("no test case matches the filters given\n", stderr);
    return 1;
  }
  return result;
}
