/* A wall clock that a test sets, for a server that is started with this library preloaded: the file
 * that CLOCK_AHEAD names holds by how many microseconds the clock is ahead. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead_us;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    ahead_us = mapped == MAP_FAILED ? NULL : mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && ahead_us) {
        int64_t us = (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + *ahead_us;
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec is;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &is);
    now->tv_sec = is.tv_sec;
    now->tv_usec = is.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec is;
    clock_gettime(CLOCK_REALTIME, &is);
    if (now) *now = is.tv_sec;
    return is.tv_sec;
}
