// A clock that can be set for some processes alone: preloaded, it moves CLOCK_REALTIME by the
// nanoseconds that the file $CHAOS_CLOCK holds, from the moment that they are written there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* moved_by;

__attribute__((constructor)) static void open_clock(void) {
  const char* path = getenv("CHAOS_CLOCK");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof *moved_by, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) moved_by = mapped;
  close(fd);
}

int clock_gettime(clockid_t id, struct timespec* now) {
  const int status = (int)syscall(SYS_clock_gettime, id, now);
  if (status != 0 || !moved_by || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
    return status;
  const int64_t nanoseconds = now->tv_nsec + *moved_by % 1000000000;
  now->tv_sec += *moved_by / 1000000000 + (nanoseconds < 0 ? -1 : nanoseconds / 1000000000);
  now->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
