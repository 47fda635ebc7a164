// The common main function of benchmarks: command line, answers and errors.
#pragma once

#include <CLI/CLI.hpp>
#include <cerrno>  // program_invocation_short_name
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "ferrite/core/version.h"

namespace bench {

/// Writes a line of JSON for the script that waits for it.
inline void answer(const nlohmann::json& json) { std::cout << json.dump() << std::endl; }

/// Reads the command line and calls `program`, which may return the exit status; an exception
/// becomes a line on stderr and exit status 1. The programs for libtorch have it as well: it needs
/// nothing of Ferrite's libraries.
template <class Program>
int run(CLI::App& app, int argc, char** argv, Program&& program) {
  app.name(program_invocation_short_name);
  app.get_formatter()->column_width(32);
  app.set_version_flag("--version", app.get_name() + " " FERRITE_VERSION,
                       "print the version of Ferrite")
      ->group("Options");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("error: ") + error.what() + "\nRun with --help for more information.\n";
  });
  CLI11_PARSE(app, argc, argv);
  try {
    if constexpr (std::is_same_v<decltype(program()), int>) return program();
    program();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace bench
