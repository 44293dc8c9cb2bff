// Loads and a server in simulated time: the closed and open loops of a load's threads, and the limits (limits.h) that
// the stub server has, too. A run of a second takes milliseconds.
//
// A thread of the load sleeps until a reply comes or an operation is due, wakes up late, handles what has come by then
// and submits what it may. How late is read from a file of delays that were measured, in us, played from a random place
// on; without a file it is a constant.
//
// The limits keep their state from run to run, as a server's do. Standard input has one run per "run" line:
//   worker DEPTH CONNECTIONS CLIENT FILE FILE_BYTES READ_PERCENT BLOCK_BYTES OPS_PER_S POISSON THINK_NS EVERY END_NS
//   run GAP_NS
// END_NS is when the worker submits no more, from the start of the run; GAP_NS passes before the run. Standard output
// has, for each run, the number of operations (8 bytes) and six numbers of 8 bytes for each: worker, write, when it was
// due, submitted and reaped (in ns from the start), and bytes; then, for each worker, how long it waited for a
// processor and how long it ran; then for each limit how long it held requests, in ns.

#include "limits.h"

enum { WORKERS_MAX = 64, EVENTS_MAX = 1 << 16, DELAYS_MAX = 1 << 16 };

static const int64_t WIRE_NS = 12000;          // one way
static const int64_t WAKE_NS = 6000;           // processor time of a thread for a wake-up
static const int64_t OPERATION_NS = 1500;      // and for an operation
static const int64_t USUAL_DELAY_NS = 30000;   // of a wake-up; more is waiting for a processor
static const int64_t GAP_MAX_NS = 3600LL * NANOS_PER_SECOND;

typedef enum { ARRIVE, PASS, REPLY, WAKE } event_kind;

typedef struct {
    int64_t due_ns, submitted_ns, reaped_ns;
    int worker, next_limit;
    request asked;
} operation;

typedef struct {
    int64_t at_ns;
    uint64_t order;
    event_kind kind;
    int worker;
    operation one;
} event;

typedef struct {
    int depth, connections, poisson, every, flying, since_pause, is_pausing;
    uint64_t client, file, file_bytes, issued;
    double read_share, per_s;
    uint32_t block_bytes;
    int64_t think_ns, end_ns, due_ns, resume_ns;
    int64_t wake_ns;   // of the wake-up that is planned; 0: none
    int64_t late_ns;   // by so much it comes late
    int64_t awake_ns;  // until when the thread is busy
    operation replies[EVENTS_MAX / 16];
    int reply_count;
    int64_t waited_ns, ran_ns;
} worker;

static worker workers[WORKERS_MAX];
static int worker_count;
static event *events[EVENTS_MAX];
static int event_count;
static uint64_t event_order;
static operation parked[EVENTS_MAX];
static int parked_count;
static operation *done;
static size_t done_count, done_room;
static int64_t delays_ns[DELAYS_MAX];
static size_t delay_count, next_delay;
static service_times chance;
static int64_t clock_ns = NANOS_PER_SECOND, start_ns;

static int is_before(const event *one, const event *other) {
    return one->at_ns < other->at_ns || (one->at_ns == other->at_ns && one->order < other->order);
}

static void push(event made) {
    if (event_count == EVENTS_MAX) exit(1);
    event *kept = malloc(sizeof *kept);
    if (!kept) exit(1);
    made.order = event_order++;
    *kept = made;
    int at = event_count++;
    for (; at > 0 && is_before(kept, events[(at - 1) / 2]); at = (at - 1) / 2) events[at] = events[(at - 1) / 2];
    events[at] = kept;
}

static event pop(void) {
    event *top = events[0], *last = events[--event_count], taken = *top;
    int at = 0;
    for (int child; (child = 2 * at + 1) < event_count; at = child) {
        if (child + 1 < event_count && is_before(events[child + 1], events[child])) child++;
        if (!is_before(events[child], last)) break;
        events[at] = events[child];
    }
    events[at] = last;
    free(top);
    return taken;
}

// The threads of the load.

static void wake_at(int number, int64_t at_ns) {
    worker *its = workers + number;
    if (its->wake_ns && its->wake_ns <= at_ns) return;
    int64_t late_ns = 0;
    if (at_ns > its->awake_ns) late_ns = delay_count ? delays_ns[next_delay++ % delay_count] : USUAL_DELAY_NS;
    else at_ns = its->awake_ns;
    at_ns += late_ns;
    its->wake_ns = at_ns;
    its->late_ns = late_ns;
    push((event){.at_ns = at_ns, .kind = WAKE, .worker = number});
}

static int64_t gap_ns(const worker *its) {
    double even = NANOS_PER_SECOND / its->per_s;
    return (int64_t)(its->poisson ? -log(uniform(&chance)) * even : even);
}

// True if the thread may submit an operation now; otherwise it plans its wake-up, if only time is missing.
static int may_submit(int number, int64_t at_ns) {
    worker *its = workers + number;
    if (its->flying >= its->depth || at_ns - start_ns >= its->end_ns) return 0;
    if (its->is_pausing) {
        if (its->flying > 0) return 0;
        if (!its->resume_ns) its->resume_ns = at_ns + its->think_ns;
        if (at_ns < its->resume_ns) {
            wake_at(number, its->resume_ns);
            return 0;
        }
        its->is_pausing = 0;
        its->resume_ns = 0;
    }
    if (its->per_s > 0 && its->due_ns > at_ns) {
        wake_at(number, its->due_ns);
        return 0;
    }
    return 1;
}

static void submit(int number, int64_t *at_ns) {
    worker *its = workers + number;
    while (may_submit(number, *at_ns)) {
        operation made = {.worker = number, .due_ns = *at_ns};
        if (its->per_s > 0) {
            made.due_ns = its->due_ns;
            its->due_ns += gap_ns(its);
        }
        *at_ns += OPERATION_NS;
        its->ran_ns += OPERATION_NS;
        made.submitted_ns = *at_ns;
        uint64_t blocks = its->file_bytes / its->block_bytes;
        made.asked = (request){
            .is_write = uniform(&chance) > its->read_share,
            .bytes = its->block_bytes,
            .connection = (uint64_t)number * 64 + its->issued++ % (uint64_t)its->connections + 1,
            .client = its->client,
            .file = its->file,
            .offset = (uint64_t)(uniform(&chance) * (double)blocks) % (blocks ? blocks : 1) * its->block_bytes,
        };
        its->flying++;
        if (its->think_ns && ++its->since_pause >= its->every) {
            its->since_pause = 0;
            its->is_pausing = 1;
        }
        push((event){.at_ns = *at_ns + WIRE_NS, .kind = ARRIVE, .worker = number, .one = made});
    }
}

static void reap(int number, int64_t *at_ns) {
    worker *its = workers + number;
    *at_ns += WAKE_NS;
    its->ran_ns += WAKE_NS;
    for (int each = 0; each < its->reply_count; each++) {
        its->replies[each].reaped_ns = *at_ns;
        if (done_count == done_room) {
            done_room = done_room ? 2 * done_room : 4096;
            done = realloc(done, done_room * sizeof *done);
            if (!done) exit(1);
        }
        done[done_count++] = its->replies[each];
        its->flying--;
    }
    its->reply_count = 0;
}

static void wake(int number, int64_t at_ns) {
    worker *its = workers + number;
    if (its->wake_ns != at_ns) return;  // another wake-up was earlier
    its->wake_ns = 0;
    if (its->late_ns > USUAL_DELAY_NS) its->waited_ns += its->late_ns - USUAL_DELAY_NS;
    int64_t now = at_ns;
    reap(number, &now);
    submit(number, &now);
    its->awake_ns = now;
}

// The server.

static void reply(operation one, int64_t at_ns) {
    push((event){.at_ns = at_ns + WIRE_NS, .kind = REPLY, .worker = one.worker, .one = one});
}

static void go_on(operation one, int64_t at_ns) {
    push((event){.at_ns = at_ns, .kind = PASS, .worker = one.worker, .one = one});
}

// The end of a request lets the next one pass that waits for it.
static void release(const operation *ended, int64_t at_ns) {
    for (int number = 0; number < limit_count; number++) {
        limit *one = limits + number;
        if (one->kind != IN_FLIGHT || !applies(one, &ended->asked)) continue;
        account *its = account_of(one, &ended->asked, at_ns);
        its->in_flight--;
        for (int each = 0; each < parked_count; each++) {
            operation next = parked[each];
            if (next.next_limit != number || key_of(one, &next.asked) != its->key) continue;
            memmove(parked + each, parked + each + 1, (size_t)(--parked_count - each) * sizeof *parked);
            its->in_flight++;
            one->held_ns += at_ns - next.reaped_ns;
            next.next_limit++;
            go_on(next, at_ns);
            break;
        }
    }
}

static void pass(operation one, int64_t at_ns) {
    if (one.next_limit == limit_count) {
        release(&one, at_ns);
        reply(one, at_ns);
        return;
    }
    limit *next = limits + one.next_limit;
    int64_t until_ns = through_limit(next, &one.asked, at_ns);
    if (until_ns == NEVER) {
        if (parked_count == EVENTS_MAX) exit(1);
        one.reaped_ns = at_ns;  // since when it waits
        parked[parked_count++] = one;
        return;
    }
    next->held_ns += until_ns - at_ns;
    one.next_limit++;
    go_on(one, until_ns);
}

static void step(event next) {
    clock_ns = next.at_ns;
    worker *its = workers + next.worker;
    switch (next.kind) {
        case ARRIVE: case PASS: pass(next.one, next.at_ns); return;
        case WAKE: wake(next.worker, next.at_ns); return;
        case REPLY:
            if (its->reply_count == EVENTS_MAX / 16) exit(1);
            its->replies[its->reply_count++] = next.one;
            wake_at(next.worker, next.at_ns);
    }
}

// Runs.

static void put(int64_t value) {
    fwrite(&value, sizeof value, 1, stdout);
}

static void write_run(void) {
    put((int64_t)done_count);
    for (size_t each = 0; each < done_count; each++) {
        const operation *one = done + each;
        put(one->worker);
        put(one->asked.is_write);
        put(one->due_ns - start_ns);
        put(one->submitted_ns - start_ns);
        put(one->reaped_ns - start_ns);
        put(one->asked.bytes);
    }
    for (int each = 0; each < worker_count; each++) {
        put(workers[each].waited_ns);
        put(workers[each].ran_ns);
    }
    for (int each = 0; each < limit_count; each++) {
        put(limits[each].held_ns);
        limits[each].held_ns = 0;
    }
    fflush(stdout);
}

static void run(int64_t gap) {
    clock_ns += gap;
    start_ns = clock_ns;
    done_count = 0;
    next_delay = delay_count ? (size_t)(uniform(&chance) * (double)delay_count) % delay_count : 0;
    for (int each = 0; each < worker_count; each++) {
        worker *its = workers + each;
        its->due_ns = start_ns + (its->per_s > 0 ? gap_ns(its) : 0);
        its->awake_ns = start_ns - 1;
        wake_at(each, start_ns);
    }
    while (event_count) step(pop());
    write_run();
    worker_count = 0;
}

static void add_worker(const char *line) {
    if (worker_count == WORKERS_MAX) exit(2);
    worker *its = workers + worker_count++;
    memset(its, 0, sizeof *its);
    double percent;
    int found = sscanf(line, "worker %d %d %lu %lu %lu %lf %u %lf %d %ld %d %ld", &its->depth, &its->connections,
                       &its->client, &its->file, &its->file_bytes, &percent, &its->block_bytes, &its->per_s,
                       &its->poisson, &its->think_ns, &its->every, &its->end_ns);
    its->read_share = percent / 100;
    if (found != 12 || its->connections < 1 || !its->block_bytes) {
        fprintf(stderr, "%s is no worker\n", line);
        exit(2);
    }
}

static void read_delays(const char *path) {
    FILE *file = fopen(path, "r");
    double us;
    if (!file) exit(2);
    while (delay_count < DELAYS_MAX && fscanf(file, "%lf", &us) == 1) delays_ns[delay_count++] = (int64_t)(us * 1000);
    fclose(file);
}

// simulated_load SEED DELAYS_FILE|- LIMIT…
int main(int count, char **words) {
    if (count < 3) return 2;
    uint64_t seed = strtoull(words[1], NULL, 10);
    chance = parse_service_times("constant:0", seed * 977 + 5);
    if (strcmp(words[2], "-")) read_delays(words[2]);
    for (int each = 3; each < count; each++) add_limit(words[each], seed);
    char line[512];
    while (fgets(line, sizeof line, stdin)) {
        int64_t gap;
        if (sscanf(line, "run %ld", &gap) == 1 && gap >= 0 && gap < GAP_MAX_NS) run(gap);
        else add_worker(line);
    }
    return 0;
}
