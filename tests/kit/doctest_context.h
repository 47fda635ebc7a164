// For doctest programs: makes a failing CHECK inside a case of the kit print the case. Include it
// once per program, after doctest.
#pragma once

#include <doctest/doctest.h>

#include <iostream>
#include <mutex>

#include "ferrite/tests/kit/kernel_case.h"

namespace ferrite::kit {

class DoctestContext : public doctest::IReporter {
 public:
  explicit DoctestContext(const doctest::ContextOptions&) {}
  void log_assert(const doctest::AssertData& assertion) override {
    if (assertion.m_failed) print();
  }
  void log_message(const doctest::MessageData&) override { print(); }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  static void print() {
    const std::string text = running_case();
    if (!text.empty()) std::cout << "in " << text << std::endl;
  }
};

REGISTER_LISTENER("kernel_case", 1, DoctestContext);

}  // namespace ferrite::kit
