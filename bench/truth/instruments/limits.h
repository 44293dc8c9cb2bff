// Limits that the stub server composes: each request passes them in order, and each may hold it back.
//
// Every limit is computed in the time of its schedule, not of the processor: a request enters a limit when the limit
// before has let it go, however late the server's timer is. A limit adds up how long it held requests back, so that
// the server itself knows which limit was the binding one.

#ifndef LIMITS_H
#define LIMITS_H

#include "service_times.h"

enum {
    LIMITS_MAX = 8,
    KEYS_MAX = 256,
    STATIONS_MAX = 64,
    STARTS_MAX = 8192,
    CACHE_BITS = 1 << 20,
    LAYOUT_BYTES = 256 << 10,  // larger requests lay files out: they pass, and leave each limit as it is
};

static const int64_t NEVER = INT64_MAX;

typedef enum {
    BUCKET, WINDOW, SLIDING, SMOOTH, ADAPTIVE, TICKS, SHARED,  // these have a rate
    STATIONS, BATCHES, DELAY, TIER, IN_FLIGHT, PAUSES, CACHE, KINDS,
} limit_kind;

static const char *const KIND_NAMES[KINDS] = {
    "bucket",   "window",  "sliding", "smooth", "adaptive",  "ticks",  "shared",
    "stations", "batches", "delay",   "tier",   "in_flight", "pauses", "cache",
};

typedef struct {  // what a limit reads of a request
    int is_write;
    uint32_t bytes;
    uint64_t connection, client, file, offset;
} request;

typedef struct {  // a limit's account of the server, a connection, a client or a file
    uint64_t key;
    int64_t used_ns;  // when it was last asked for; the oldest gives way to a new key
    double ready_ns;  // BUCKET: theoretical arrival time; TICKS: the latest tick; others: the latest start
    double level;     // WINDOW, TICKS: units granted, left; SMOOTH: estimated rate; ADAPTIVE: present rate; BATCHES: end
    int64_t station_free_ns[STATIONS_MAX];
    int64_t *starts;  // SLIDING: a ring of the latest starts
    uint64_t next_start;
    int in_flight;    // BATCHES: members of the latest batch
} account;

typedef struct {
    limit_kind kind;
    char unit;         // o: operations, b: bytes
    char of;           // a: all, r: reads, w: writes
    char per;          // s: server, c: connection, a: client's address, f: file
    double rate;       // units per second
    double burst;      // BUCKET, TICKS: units
    double unit_bytes;  // an operation costs one for each so many bytes; 0: one
    double period_ns;  // WINDOW, SLIDING: length; SMOOTH: time constant; ADAPTIVE: time to grow by a tenth; PAUSES: distance;
                       // TICKS: distance; SHARED: time for which a share holds
    double pause_ns;   // PAUSES: length
    double share;      // SHARED: the least share of the rate; TIER: share of the places
    double contention;  // STATIONS: a request takes this share longer for each that waits
    double write_cost;  // units of a written operation or byte
    int count;         // STATIONS: stations; IN_FLIGHT: requests; BATCHES: most requests of a batch
    double ns_per_byte;  // STATIONS, DELAY: added to the service time
    service_times times;
    uint64_t after;     // units, after which the rate and the speed change by the factor
    double factor;
    double granted;     // units so far
    uint8_t *cached;
    account accounts[KEYS_MAX];
    int account_count;
    int64_t held_ns;    // reported
} limit;

static limit limits[LIMITS_MAX];
static int limit_count;

// Accounts.

static uint64_t key_of(const limit *one, const request *asked) {
    switch (one->per) {
        case 'c': return asked->connection;
        case 'a': return asked->client;
        case 'f': return asked->file;
        default: return 0;
    }
}

static account *account_of(limit *one, const request *asked, int64_t at_ns) {
    uint64_t key = key_of(one, asked);
    account *oldest = one->accounts;
    for (int each = 0; each < one->account_count; each++) {
        account *candidate = one->accounts + each;
        if (candidate->key == key) {
            candidate->used_ns = at_ns;
            return candidate;
        }
        if (candidate->used_ns < oldest->used_ns) oldest = candidate;
    }
    account *made = one->account_count < KEYS_MAX ? one->accounts + one->account_count++ : oldest;
    int64_t *starts = made->starts;
    *made = (account){.key = key, .used_ns = at_ns, .starts = starts};
    if (one->kind == SLIDING) {
        if (!starts) made->starts = malloc(STARTS_MAX * sizeof *starts);
        if (!made->starts) exit(1);
        for (int each = 0; each < STARTS_MAX; each++) made->starts[each] = INT64_MIN / 2;
    }
    return made;
}

static double speed(const limit *one) {
    return one->after && one->granted > (double)one->after ? one->factor : 1;
}

static double per_ns(const limit *one) {
    return one->rate * speed(one) / NANOS_PER_SECOND;
}

// One function for each kind: when a request that comes at `at_ns` may go on.

// The generic cell rate algorithm (ITU-T I.371), in units of any size.
static int64_t through_bucket(limit *one, account *its, double cost, int64_t at_ns) {
    double allowed = its->ready_ns - fmax(0, one->burst - cost) / per_ns(one);
    double start = fmax((double)at_ns, allowed);
    its->ready_ns = fmax(its->ready_ns, start) + cost / per_ns(one);
    return (int64_t)start;
}

// Windows of the server's clock, each with as many units.
static int64_t through_window(limit *one, account *its, double cost, int64_t at_ns) {
    double room = per_ns(one) * one->period_ns, window = floor((double)at_ns / one->period_ns);
    // The level counts in windows, since a change of the rate changes their room.
    its->level = fmax(its->level, window);
    double start = fmax((double)at_ns, floor(its->level + 1e-9) * one->period_ns);
    its->level += cost / room;
    return (int64_t)start;
}

// At most so many operations start in any time of this length.
static int64_t through_sliding(limit *one, account *its, int64_t at_ns) {
    uint64_t most = (uint64_t)fmax(1, per_ns(one) * one->period_ns);
    int64_t before = its->starts[(its->next_start - most) % STARTS_MAX];
    int64_t start_ns = before + (int64_t)one->period_ns;
    if (start_ns < at_ns) start_ns = at_ns;
    its->starts[its->next_start++ % STARTS_MAX] = start_ns;
    return start_ns;
}

// An exponentially weighted rate must not exceed the limit.
static int64_t through_smooth(limit *one, account *its, double cost, int64_t at_ns) {
    double start = fmax((double)at_ns, its->ready_ns), most = per_ns(one);
    double rate = its->level * exp((its->ready_ns - start) / one->period_ns);
    if (rate > most) {
        start += one->period_ns * log(rate / most);
        rate = most;
    }
    its->level = rate + cost / one->period_ns;
    its->ready_ns = start;
    return (int64_t)start;
}

// A rate that grows steadily and falls by a quarter whenever it exceeds the limit (additive increase, multiplicative
// decrease); operations are paced at it.
static int64_t through_adaptive(limit *one, account *its, double cost, int64_t at_ns) {
    double start = fmax((double)at_ns, its->ready_ns), most = per_ns(one);
    double idle = its->ready_ns > 0 ? start - its->ready_ns : 0;
    if (its->level == 0) its->level = most;
    double gap = cost / its->level;
    its->level += most * 0.1 * (gap + fmin(idle, one->period_ns)) / one->period_ns;
    if (its->level > most * 1.1) its->level *= 0.75;
    its->ready_ns = start + gap;
    return (int64_t)start;
}

// A token bucket that gets its tokens at the ticks of a clock.
static int64_t through_ticks(limit *one, account *its, double cost, int64_t at_ns) {
    double per_tick = per_ns(one) * one->period_ns, tick = fmax(floor((double)at_ns / one->period_ns), its->ready_ns);
    double most = fmax(one->burst, fmax(cost, per_tick));
    its->level = fmin(most, its->level + (tick - its->ready_ns) * per_tick);
    if (its->level < cost) {
        double missing = ceil((cost - its->level) / per_tick);
        tick += missing;
        its->level = fmin(most, its->level + missing * per_tick);
    }
    its->level -= cost;
    its->ready_ns = tick;
    return (int64_t)fmax((double)at_ns, tick * one->period_ns);
}

// A number from 0 to 1 that a place, or a period, always has.
static double hashed(uint64_t number) {
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCDULL;
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53ULL;
    return (double)((number ^ number >> 33) >> 11) / (double)(1ULL << 53);
}

// Paced at what others leave of the rate, which is another share of it in each period.
static int64_t through_shared(limit *one, account *its, double cost, int64_t at_ns) {
    double start = fmax((double)at_ns, its->ready_ns);
    double share = one->share + (1 - one->share) * hashed((uint64_t)(start / one->period_ns));
    its->ready_ns = start + cost / per_ns(one) / share;
    return (int64_t)start;
}

static int64_t service_ns(limit *one, const request *asked) {
    double drawn = (double)next_service_ns(&one->times) + one->ns_per_byte * asked->bytes;
    return (int64_t)(drawn / speed(one));
}

// Stations that each work on one request at a time; first come, first served.
static int64_t through_stations(limit *one, account *its, const request *asked, int64_t at_ns) {
    int64_t *station = its->station_free_ns;
    for (int each = 1; each < one->count; each++)
        if (its->station_free_ns[each] < *station) station = its->station_free_ns + each;
    double took = (double)service_ns(one, asked);
    if (one->contention > 0 && *station > at_ns) took *= 1 + one->contention * one->count * (double)(*station - at_ns) / took;
    *station = (*station > at_ns ? *station : at_ns) + (int64_t)took;
    return *station;
}

// Serves all waiting requests together, up to a number of them; later ones wait for the next batch.
static int64_t through_batches(limit *one, account *its, const request *asked, int64_t at_ns) {
    int joins = (double)at_ns < its->ready_ns && its->in_flight < one->count;
    if (!joins) {
        its->ready_ns = fmax((double)at_ns, its->level);
        its->level = its->ready_ns + (double)service_ns(one, asked);
        its->in_flight = 0;
    }
    its->in_flight++;
    return (int64_t)its->level;
}

// Some places of 64 KiB are slow, always the same ones.
static int64_t through_tier(limit *one, const request *asked, int64_t at_ns) {
    return hashed(asked->file * 31 + asked->offset / 65536) < one->share ? at_ns + service_ns(one, asked) : at_ns;
}

static int64_t through_pauses(const limit *one, int64_t at_ns) {
    double into = fmod((double)at_ns, one->period_ns);
    return into < one->pause_ns ? at_ns + (int64_t)(one->pause_ns - into) : at_ns;
}

// The first read of a place takes the service time, a later one nothing.
static int64_t through_cache(limit *one, const request *asked, int64_t at_ns) {
    uint64_t place = (asked->file * 0x9E3779B97F4A7C15ULL + asked->offset / 4096 * 0xD1B54A32D192ED03ULL) >> 20;
    uint64_t bit = place % CACHE_BITS;
    if (!one->cached) one->cached = calloc(CACHE_BITS / 8, 1);
    if (!one->cached) exit(1);
    if (!asked->is_write && one->cached[bit / 8] >> bit % 8 & 1) return at_ns;
    if (!asked->is_write) one->cached[bit / 8] |= (uint8_t)(1 << bit % 8);
    return at_ns + service_ns(one, asked);
}

static int64_t through_in_flight(const limit *one, account *its, int64_t at_ns) {
    if (its->in_flight >= one->count) return NEVER;  // until another request of the account has ended
    its->in_flight++;
    return at_ns;
}

static int applies(const limit *one, const request *asked) {
    return one->of == 'a' || (one->of == 'w') == asked->is_write;
}

// When a request that comes to a limit may go on; NEVER if it waits for the end of another.
static int64_t through_limit(limit *one, const request *asked, int64_t at_ns) {
    if (!applies(one, asked)) return at_ns;
    double cost = one->unit == 'b' ? asked->bytes : one->unit_bytes > 0 ? ceil(asked->bytes / one->unit_bytes) : 1;
    if (asked->is_write) cost *= one->write_cost;
    one->granted += cost;
    account *its = account_of(one, asked, at_ns);
    switch (one->kind) {
        case BUCKET: return through_bucket(one, its, cost, at_ns);
        case WINDOW: return through_window(one, its, cost, at_ns);
        case SLIDING: return through_sliding(one, its, at_ns);
        case SMOOTH: return through_smooth(one, its, cost, at_ns);
        case ADAPTIVE: return through_adaptive(one, its, cost, at_ns);
        case TICKS: return through_ticks(one, its, cost, at_ns);
        case SHARED: return through_shared(one, its, cost, at_ns);
        case STATIONS: return through_stations(one, its, asked, at_ns);
        case BATCHES: return through_batches(one, its, asked, at_ns);
        case TIER: return through_tier(one, asked, at_ns);
        case DELAY: return at_ns + service_ns(one, asked);
        case IN_FLIGHT: return through_in_flight(one, its, at_ns);
        case PAUSES: return through_pauses(one, at_ns);
        default: return through_cache(one, asked, at_ns);
    }
}

// The command line: "bucket,rate=1500,burst=50,of=r,per=c".

static void wrong_limit(const char *text) {
    fprintf(stderr, "%s is no limit; write KIND,KEY=VALUE,… with KIND one of", text);
    for (int each = 0; each < KINDS; each++) fprintf(stderr, " %s", KIND_NAMES[each]);
    fprintf(stderr, "\n");
    exit(2);
}

static int set_key(limit *one, const char *key, const char *value, uint64_t seed) {
    double number = atof(value);
    if (!strcmp(key, "unit")) one->unit = value[0];
    else if (!strcmp(key, "of")) one->of = value[0];
    else if (!strcmp(key, "per")) one->per = value[0];
    else if (!strcmp(key, "rate")) one->rate = number;
    else if (!strcmp(key, "burst")) one->burst = number;
    else if (!strcmp(key, "period_ms")) one->period_ns = number * 1e6;
    else if (!strcmp(key, "pause_ms")) one->pause_ns = number * 1e6;
    else if (!strcmp(key, "write_cost")) one->write_cost = number;
    else if (!strcmp(key, "unit_bytes")) one->unit_bytes = number;
    else if (!strcmp(key, "share")) one->share = number;
    else if (!strcmp(key, "contention")) one->contention = number;
    else if (!strcmp(key, "count")) one->count = (int)number;
    else if (!strcmp(key, "us_per_kib")) one->ns_per_byte = number * 1000 / 1024;
    else if (!strcmp(key, "service")) one->times = parse_service_times(value, seed);
    else if (!strcmp(key, "after")) one->after = (uint64_t)number;
    else if (!strcmp(key, "factor")) one->factor = number;
    else return 0;
    return 1;
}

static void add_limit(const char *text, uint64_t seed) {
    char words[256], *rest = NULL;
    limit *one = limits + limit_count;
    *one = (limit){.kind = KINDS, .unit = 'o', .of = 'a', .per = 's', .burst = 1, .write_cost = 1, .factor = 1};
    one->times = parse_service_times("constant:0", seed);
    if (limit_count == LIMITS_MAX || snprintf(words, sizeof words, "%s", text) >= (int)sizeof words) wrong_limit(text);
    char *word = strtok_r(words, ",", &rest);
    for (int each = 0; word && each < KINDS; each++)
        if (!strcmp(word, KIND_NAMES[each])) one->kind = (limit_kind)each;
    while (word && (word = strtok_r(NULL, ",", &rest))) {
        char *value = strchr(word, '=');
        if (!value) wrong_limit(text);
        *value++ = 0;
        if (!set_key(one, word, value, seed * 31 + (uint64_t)limit_count)) wrong_limit(text);
    }
    int is_paced = one->kind <= SHARED;
    if (one->kind == KINDS || (is_paced && one->rate <= 0) || one->count > STATIONS_MAX) wrong_limit(text);
    if (one->kind == SLIDING && one->rate * one->period_ns / 1e9 >= STARTS_MAX) wrong_limit(text);
    limit_count++;
}

#endif
