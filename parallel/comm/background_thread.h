// Background threads of the library.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace ferrite::parallel::comm {

/// A thread that runs none of the program's signal handlers: signals go to the program's threads.
template <class F>
std::thread start_background_thread(const char* name, F f) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(f));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace ferrite::parallel::comm
