// Service times drawn from a seed, and the clock, for the instruments of the truth bench.

#ifndef SERVICE_TIMES_H
#define SERVICE_TIMES_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NANOS_PER_MICRO = 1000, NANOS_PER_SECOND = 1000000000 };

// The last part of a wait is spent polling the clock, because a sleeping thread wakes up late.
static const int64_t SPIN_NS = 80 * NANOS_PER_MICRO;

typedef struct {
    char shape;         // c: constant, e: exponential, l: lognormal, b: bimodal, p: Pareto
    double mean_us;     // of the faster mode for a bimodal distribution
    double sigma;       // lognormal: standard deviation of the logarithm; Pareto: index of the tail, more than 1
    double slow_us;     // bimodal
    double slow_share;  // bimodal
    uint64_t state;
} service_times;

static inline int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * NANOS_PER_SECOND + at.tv_nsec;
}

static inline void sleep_until(int64_t at_ns) {
    struct timespec at = {at_ns / NANOS_PER_SECOND, at_ns % NANOS_PER_SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

// Sleeps for most of the wait and polls the clock for the rest.
static inline void wait_until(int64_t at_ns) {
    if (at_ns - now_ns() > SPIN_NS) sleep_until(at_ns - SPIN_NS);
    while (now_ns() < at_ns) {
    }
}

// Uniform in (0, 1]: xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
static inline double uniform(service_times *times) {
    uint64_t x = times->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    times->state = x;
    return (double)((x * 0x2545F4914F6CDD1DULL >> 11) + 1) / 9007199254740992.0;
}

static inline int64_t next_service_ns(service_times *times) {
    double us = times->mean_us;
    if (times->shape == 'e') {
        us *= -log(uniform(times));
    } else if (times->shape == 'l') {
        double normal = sqrt(-2 * log(uniform(times))) * cos(2 * M_PI * uniform(times));
        us *= exp(times->sigma * normal - times->sigma * times->sigma / 2);
    } else if (times->shape == 'p') {
        us *= (times->sigma - 1) / times->sigma * pow(uniform(times), -1 / times->sigma);
    } else if (times->shape == 'b' && uniform(times) <= times->slow_share) {
        us = times->slow_us;
    }
    return (int64_t)(us * NANOS_PER_MICRO);
}

// Reads "constant:MEAN", "exponential:MEAN", "lognormal:MEAN:SIGMA", "pareto:MEAN:INDEX" or
// "bimodal:FAST:SLOW:SHARE_OF_SLOW", in us.
static inline service_times parse_service_times(const char *text, uint64_t seed) {
    service_times times = {.shape = text[0], .state = seed * 0x9E3779B97F4A7C15ULL + 1};
    double *second = strchr("lp", times.shape) ? &times.sigma : &times.slow_us;
    const char *colon = strchr(text, ':');
    int found = colon ? sscanf(colon, ":%lf:%lf:%lf", &times.mean_us, second, &times.slow_share) : 0;
    int wanted = times.shape == 'b' ? 3 : strchr("lp", times.shape) ? 2 : 1;
    if (found != wanted || !strchr("celbp", times.shape) || times.mean_us < 0) {
        fprintf(stderr, "%s is no service time; write constant:US, exponential:US, lognormal:US:SIGMA, "
                        "pareto:US:INDEX or bimodal:US:US:SHARE\n", text);
        exit(2);
    }
    for (int draw = 0; draw < 16; draw++) uniform(&times);
    return times;
}

#endif
