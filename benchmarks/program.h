// The common main function of benchmarks: command line, answers and errors.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

namespace bench {

/// Writes a line of JSON for the script that waits for it.
inline void answer(const nlohmann::json& json) { std::cout << json.dump() << std::endl; }

/// Reads the command line and calls `program`; an exception becomes a line on stderr and exit
/// status 1.
template <class Program>
int run(CLI::App& app, int argc, char** argv, Program&& program) {
  CLI11_PARSE(app, argc, argv);
  try {
    program();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace bench
