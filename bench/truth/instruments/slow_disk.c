// Delays each preadv and pwritev by SLOW_DISK_US, as a disk does that works on any number at once: a library for
// LD_PRELOAD that stands under a file server. It shares no code with iocurve. Modules of the server find it, too: dlopen
// loads them without RTLD_DEEPBIND.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

typedef ssize_t (*vector_call)(int, const struct iovec *, int, off64_t);

static vector_call real_preadv, real_pwritev;
static struct timespec service;

__attribute__((constructor)) static void prepare(void) {
    const char *delay_us = getenv("SLOW_DISK_US");
    long delay_ns = delay_us ? atol(delay_us) * 1000 : 0;
    service = (struct timespec){delay_ns / 1000000000, delay_ns % 1000000000};
    real_preadv = (vector_call)dlsym(RTLD_NEXT, "preadv64");
    real_pwritev = (vector_call)dlsym(RTLD_NEXT, "pwritev64");
}

void *dlopen(const char *path, int flags) {
    void *(*real_dlopen)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real_dlopen(path, flags & ~RTLD_DEEPBIND);
}

static void work(void) {
    static __thread int has_exact_timer;
    if (!has_exact_timer) has_exact_timer = !prctl(PR_SET_TIMERSLACK, 1UL);
    struct timespec left = service;
    while (nanosleep(&left, &left) && errno == EINTR) continue;
}

ssize_t preadv64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    work();
    return real_preadv(descriptor, parts, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    work();
    return real_pwritev(descriptor, parts, count, offset);
}
