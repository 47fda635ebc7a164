// What sanitizers should know of libraries that tests of process groups use.

/// Gloo does not give back the list of interfaces where none has the name that was asked for.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDevice";
}

/// Gloo's own thread may still be on its way out of a buffer's condition variable when whoever it
/// has woken destroys the buffer; and what it last received for an operation that a lost rank cut
/// short is freed by the thread that waited, in a way that Gloo, which is not instrumented, hides.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:UnboundBuffer\n"
         "race:gloo::transport::tcp::Pair::read";
}
