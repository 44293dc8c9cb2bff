/* Moves the time of day of a process by CLOCK_STEP_MS, CLOCK_STEP_AFTER_S seconds after its start, if
   CLOCK_STEP_FILE is there or not set (LD_PRELOAD). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MS_PER_SECOND = 1000, NS_PER_MS = 1000000 };

static time_t started;
static long after_seconds, step_ms;

static time_t monotonic(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void start(void) {
    started = monotonic();
    after_seconds = number("CLOCK_STEP_AFTER_S");
    step_ms = number("CLOCK_STEP_MS");
}

/* Without CLOCK_STEP_FILE at once; otherwise once that file is there. */
static int is_triggered(void) {
    const char *file = getenv("CLOCK_STEP_FILE");
    return file == NULL || access(file, F_OK) == 0;
}

static void move(struct timespec *time, long ms) {
    long ns = time->tv_nsec + ms % MS_PER_SECOND * NS_PER_MS;
    long carry = ns < 0 ? -1 : ns / (MS_PER_SECOND * NS_PER_MS);
    time->tv_sec += ms / MS_PER_SECOND + carry;
    time->tv_nsec = ns - carry * MS_PER_SECOND * NS_PER_MS;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_wall && monotonic() - started >= after_seconds && is_triggered()) {
        move(time, step_ms);
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}
