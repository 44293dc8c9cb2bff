// Delays pread and pwrite of one file by planned times and logs each call: a library for LD_PRELOAD that stands under
// iocurve's sync engine. It shares no code with iocurve.
//
// DELAY_SHIM_FILE names the file, DELAY_SHIM_SERVICE the times (see service_times.h), DELAY_SHIM_LOG the log: a count of
// 8 bytes, then four numbers of 8 bytes for each call: when it began, when it was to return, when it returned (ns of
// CLOCK_MONOTONIC), and 0 for a read or 1 for a write. One thread is expected to use the file.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service_times.h"

enum { CALLS_MAX = 1 << 20 };

typedef struct {
    uint64_t begin_ns, due_ns, end_ns, is_write;
} log_entry;

typedef struct {
    uint64_t count;
    log_entry entries[CALLS_MAX];
} call_log;

static service_times times;
static struct stat delayed;
static call_log *calls;
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

__attribute__((constructor)) static void prepare(void) {
    const char *file = getenv("DELAY_SHIM_FILE"), *service = getenv("DELAY_SHIM_SERVICE");
    const char *path = getenv("DELAY_SHIM_LOG");
    real_pread = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    if (!file || !service || !path || stat(file, &delayed)) return;
    times = parse_service_times(service, 1);
    int log = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0 || ftruncate(log, sizeof *calls)) return;
    void *map = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, log, 0);
    close(log);
    if (map != MAP_FAILED) calls = map;
}

static int is_delayed(int descriptor) {
    struct stat found;
    return calls && !fstat(descriptor, &found) && found.st_ino == delayed.st_ino && found.st_dev == delayed.st_dev;
}

static int64_t begin(void) {
    static __thread int has_exact_timer;
    if (!has_exact_timer) has_exact_timer = !prctl(PR_SET_TIMERSLACK, 1UL);
    return now_ns();
}

static void end(int64_t begin_ns, int is_write) {
    int64_t due_ns = begin_ns + next_service_ns(&times);
    wait_until(due_ns);
    if (calls->count < CALLS_MAX)
        calls->entries[calls->count++] =
            (log_entry){(uint64_t)begin_ns, (uint64_t)due_ns, (uint64_t)now_ns(), (uint64_t)is_write};
}

ssize_t pread(int descriptor, void *buffer, size_t length, off_t offset) {
    if (!is_delayed(descriptor)) return real_pread(descriptor, buffer, length, offset);
    int64_t begin_ns = begin();
    ssize_t done = real_pread(descriptor, buffer, length, offset);
    int saved = errno;
    end(begin_ns, 0);
    errno = saved;
    return done;
}

ssize_t pwrite(int descriptor, const void *buffer, size_t length, off_t offset) {
    if (!is_delayed(descriptor)) return real_pwrite(descriptor, buffer, length, offset);
    int64_t begin_ns = begin();
    ssize_t done = real_pwrite(descriptor, buffer, length, offset);
    int saved = errno;
    end(begin_ns, 1);
    errno = saved;
    return done;
}

ssize_t pread64(int descriptor, void *buffer, size_t length, off_t offset) __attribute__((alias("pread")));
ssize_t pwrite64(int descriptor, const void *buffer, size_t length, off_t offset) __attribute__((alias("pwrite")));
