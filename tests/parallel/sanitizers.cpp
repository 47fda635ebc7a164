// What sanitizers should know of libraries that tests of process groups use.

/// Gloo does not give back the list of interfaces where none has the name that was asked for.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDevice";
}
