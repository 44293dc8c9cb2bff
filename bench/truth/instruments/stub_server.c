// An NFSv3 server for the truth bench: serves files that hold zeros, takes exactly planned times, and logs every
// READ and WRITE. It shares no code with iocurve.
//
// With --limit it has limits (limits.h) instead of slots, a cap and stalls, and files that clients make; on SIGUSR1 it
// prints how long each limit held requests back since the last time. Without, every name is the same file.
//
// Requests are served first come, first served by a number of slots. The end of a service is computed when its request
// arrives, from the service time drawn, the slots, the cap and the planned stalls, so a late timer delays one answer
// and no later one. The server polls the clock just before an answer is due.
//
// The log has five numbers of 8 bytes (little-endian) for each operation, in the order of the answers: when its bytes
// were received, when its answer was due, when it was sent (in ns of CLOCK_MONOTONIC), its service time in ns, and the
// procedure.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "limits.h"

enum {
    CONNECTIONS_MAX = 256,
    FILES_MAX = 4096,
    NAME_BYTES_MAX = 255,
    SLOTS_MAX = 1024,
    STALLS_MAX = 16,
    PENDING_MAX = 65536,
    CALL_BYTES_MAX = 1 << 20,
    RECORD_BYTES_MAX = CALL_BYTES_MAX + 4096,
    ANSWER_BYTES_MAX = 512,
};

enum { MOUNT_PROGRAM = 100005, NFS_PROGRAM = 100003 };
enum { GETATTR = 1, SETATTR, LOOKUP, ACCESS, READ = 6, WRITE, CREATE, REMOVE = 12, FSSTAT = 18, FSINFO, COMMIT = 21 };
enum { READDIR = 16, READDIRPLUS };
enum { NFS_OK = 0, NO_ENTRY = 2, NO_SPACE = 28 };
enum { ACCEPT_SUCCESS = 0, ACCEPT_PROC_UNAVAIL = 3, IS_FILE = 1, IS_DIRECTORY = 2 };

static const uint64_t ROOT = 1, FILE_HANDLE = 2;

typedef struct {
    int socket;
    uint64_t number, client;
    size_t filled;
    uint8_t bytes[RECORD_BYTES_MAX];
} connection;

typedef struct {
    int64_t arrival_ns, service_ns, due_ns;
    connection *from;
    uint32_t xid, procedure, count;
    request asked;
    int next_limit;
} operation;

typedef struct {
    int64_t at_ns, length_ns;
} stall;

typedef struct {
    uint64_t arrival_ns, due_ns, sent_ns, service_ns, procedure;
} log_entry;

typedef struct {
    uint8_t bytes[ANSWER_BYTES_MAX];
    size_t length;
} answer;

static struct {
    service_times times;
    uint64_t file_bytes;
    int slots;  // 0: as many as there are requests
    int64_t slot_free_ns[SLOTS_MAX];
    stall stalls[STALLS_MAX];
    int stall_count;
    double cap_per_s, cap_burst;  // 0: none
    double cap_ready_ns;          // theoretical arrival time of the generic cell rate algorithm
    int64_t first_ns;             // arrival of the first operation; stalls count from it
} plan = {.file_bytes = 1 << 24};

static struct {
    char name[NAME_BYTES_MAX + 1];  // empty: none
    uint64_t bytes;
} files[FILES_MAX];
static operation parked[PENDING_MAX];  // in the order of their arrival, until another request has ended
static int parked_count;
static struct {
    uint64_t operations;
    int64_t first_ns, last_ns, in_server_ns, late_ns;
} reported;
static int64_t spin_ns = SPIN_NS;

static connection *connections[CONNECTIONS_MAX];
static int connection_count;
static operation pending[PENDING_MAX];  // a heap; the operation that is due first is on top
static int pending_count;
static log_entry *entries;
static size_t entry_count, entry_room;
static uint8_t zeros[CALL_BYTES_MAX];
static volatile sig_atomic_t stopped, report_wanted;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// When an operation that arrives now ends.

static int64_t through_stalls(int64_t start_ns, int64_t service_ns) {
    for (int each = 0; each < plan.stall_count; each++) {
        int64_t begin = plan.first_ns + plan.stalls[each].at_ns, end = begin + plan.stalls[each].length_ns;
        if (start_ns >= begin && start_ns < end) start_ns = end;
        if (start_ns < begin && start_ns + service_ns > begin) service_ns += end - begin;
    }
    return start_ns + service_ns;
}

static int64_t through_cap(int64_t start_ns) {
    if (plan.cap_per_s == 0) return start_ns;
    double between_ns = NANOS_PER_SECOND / plan.cap_per_s;
    double allowed = plan.cap_ready_ns - (plan.cap_burst - 1) * between_ns;
    double begin = fmax((double)start_ns, allowed);
    plan.cap_ready_ns = fmax(plan.cap_ready_ns, begin) + between_ns;
    return (int64_t)begin;
}

static int64_t *first_free_slot(void) {
    int64_t *free_slot = plan.slot_free_ns;
    for (int slot = 1; slot < plan.slots; slot++)
        if (plan.slot_free_ns[slot] < *free_slot) free_slot = &plan.slot_free_ns[slot];
    return free_slot;
}

static int64_t due_of(int64_t arrival_ns, int64_t service_ns) {
    if (plan.first_ns == 0) plan.first_ns = arrival_ns;
    int64_t *slot = plan.slots ? first_free_slot() : NULL;
    int64_t start_ns = through_cap(slot && *slot > arrival_ns ? *slot : arrival_ns);
    int64_t due_ns = through_stalls(start_ns, service_ns);
    if (slot) *slot = due_ns;
    return due_ns;
}

// Answers.

static void put_u32(answer *to, uint32_t value) {
    uint32_t big = htobe32(value);
    memcpy(to->bytes + to->length, &big, 4);
    to->length += 4;
}

static void put_u64(answer *to, uint64_t value) {
    put_u32(to, value >> 32);
    put_u32(to, (uint32_t)value);
}

static void put_handle(answer *to, uint64_t handle) {
    put_u32(to, 8);
    put_u64(to, handle);
}

static uint64_t *size_of(uint64_t handle) {
    int is_made = limit_count && handle >= FILE_HANDLE && handle < FILE_HANDLE + FILES_MAX;
    return is_made ? &files[handle - FILE_HANDLE].bytes : &plan.file_bytes;
}

static void put_attributes(answer *to, uint64_t handle) {
    put_u32(to, handle == ROOT ? IS_DIRECTORY : IS_FILE);
    put_u32(to, 0777);
    put_u32(to, 1);  // links
    put_u64(to, 0);  // owner and group
    put_u64(to, handle == ROOT ? 4096 : *size_of(handle));
    put_u64(to, handle == ROOT ? 4096 : *size_of(handle));
    put_u64(to, 0);  // device number
    put_u64(to, 1);  // file system
    put_u64(to, handle);
    for (int each = 0; each < 3; each++) put_u64(to, 0);  // times
}

static answer answer_to(uint32_t xid, uint32_t accepted) {
    answer made = {.length = 4};  // the record mark comes last
    put_u32(&made, xid);
    put_u32(&made, 1);  // reply
    put_u32(&made, 0);  // accepted
    put_u64(&made, 0);  // no verifier
    put_u32(&made, accepted);
    return made;
}

static void wait_for(int socket, short event) {
    struct pollfd one = {socket, event, 0};
    poll(&one, 1, -1);
}

// Sends an answer with so many zeros behind it.
static void send_answer(int socket, answer *made, size_t payload) {
    uint32_t mark = htobe32(0x80000000u | (uint32_t)(made->length - 4 + payload));
    memcpy(made->bytes, &mark, 4);
    size_t sent = 0, whole = made->length + payload;
    while (sent < whole) {
        size_t head = sent < made->length ? made->length - sent : 0;
        struct iovec parts[2] = {{made->bytes + made->length - head, head}, {zeros, whole - sent - head}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t done = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (done > 0) sent += (size_t)done;
        else if (errno == EAGAIN) wait_for(socket, POLLOUT);
        else if (errno != EINTR) return;  // the client has gone
    }
}

static void put_fsinfo(answer *to) {
    put_u32(to, 0);                                                       // no attributes
    for (int each = 0; each < 2; each++) {                                // READ and WRITE: most, preferred, multiple
        put_u32(to, CALL_BYTES_MAX);
        put_u32(to, CALL_BYTES_MAX);
        put_u32(to, 4096);
    }
    put_u32(to, 4096);  // directories
    put_u64(to, INT64_MAX);
    put_u64(to, 1);
    put_u32(to, 0x1b);
}

static void put_found(answer *to, uint64_t handle) {
    put_handle(to, handle);
    put_u32(to, 1);
    put_attributes(to, handle);
    put_u32(to, 0);
}

static void put_created(answer *to, uint64_t handle) {
    put_u32(to, 1);
    put_handle(to, handle);
    put_u32(to, 1);
    put_attributes(to, handle);
    put_u64(to, 0);
}

static void put_space(answer *to) {
    put_u32(to, 0);
    for (int each = 0; each < 6; each++) put_u64(to, 1ull << 40);
    put_u32(to, 0);
}

static void put_no_entries(answer *to) {
    put_u32(to, 0);
    put_u64(to, 0);
    put_u32(to, 0);  // no entry
    put_u32(to, 1);  // that was the last
}

// The handle of a name; 0 if there is no such file, or no room for one.
static uint64_t handle_of(const char *name, int make) {
    if (!limit_count) return FILE_HANDLE;
    int room = -1;
    for (int each = 0; each < FILES_MAX; each++) {
        if (!strcmp(files[each].name, name)) return FILE_HANDLE + (uint64_t)each;
        if (room < 0 && !files[each].name[0]) room = each;
    }
    if (!make || room < 0) return 0;
    snprintf(files[room].name, sizeof files[room].name, "%s", name);
    files[room].bytes = 0;
    return FILE_HANDLE + (uint64_t)room;
}

typedef struct {
    uint64_t handle;
    char name[NAME_BYTES_MAX + 1];
    int sets_size;
    uint64_t size;
} arguments;

// Puts the result of a procedure that takes no time; false if the server does not have it.
static int put_result(answer *to, uint32_t procedure, const arguments *given) {
    if (procedure == 0) return 1;
    uint64_t named = ROOT;
    if (procedure == LOOKUP || procedure == CREATE || procedure == REMOVE) {
        named = handle_of(given->name, procedure == CREATE);
        if (!named) {
            put_u32(to, procedure == CREATE ? NO_SPACE : NO_ENTRY);
            put_u64(to, 0);
            return 1;
        }
    }
    if (given->sets_size && limit_count) *size_of(procedure == CREATE ? named : given->handle) = given->size;
    put_u32(to, NFS_OK);
    switch (procedure) {
        case GETATTR: put_attributes(to, given->handle); return 1;
        case LOOKUP: put_found(to, named); return 1;
        case ACCESS: put_u32(to, 0); put_u32(to, 0x3f); return 1;
        case CREATE: put_created(to, named); return 1;
        case FSSTAT: put_space(to); return 1;
        case FSINFO: put_fsinfo(to); return 1;
        case READDIR: case READDIRPLUS: put_no_entries(to); return 1;
        case REMOVE:
            if (limit_count) files[named - FILE_HANDLE].name[0] = 0;
            put_u64(to, 0);
            return 1;
        case SETATTR: put_u64(to, 0); return 1;
        case COMMIT: put_u64(to, 0); put_u64(to, 1); return 1;
        default: return 0;
    }
}

static void answer_mount(connection *from, uint32_t xid, uint32_t procedure) {
    answer made = answer_to(xid, ACCEPT_SUCCESS);
    if (procedure == 1) {  // MNT
        put_u32(&made, 0);
        put_handle(&made, ROOT);
        put_u32(&made, 1);
        put_u32(&made, 1);  // AUTH_SYS
    } else if (procedure == 5) {
        put_u32(&made, 0);  // EXPORT: none listed
    }
    send_answer(from->socket, &made, 0);
}

static void answer_at_once(connection *from, uint32_t xid, uint32_t procedure, const arguments *given) {
    answer made = answer_to(xid, ACCEPT_SUCCESS);
    if (!put_result(&made, procedure, given)) made = answer_to(xid, ACCEPT_PROC_UNAVAIL);
    send_answer(from->socket, &made, 0);
}

// Operations that are due.

static void sift_up(int at) {
    for (int parent; at > 0 && pending[parent = (at - 1) / 2].due_ns > pending[at].due_ns; at = parent) {
        operation moved = pending[at];
        pending[at] = pending[parent];
        pending[parent] = moved;
    }
}

static void sift_down(void) {
    for (int at = 0, child; (child = 2 * at + 1) < pending_count; at = child) {
        if (child + 1 < pending_count && pending[child + 1].due_ns < pending[child].due_ns) child++;
        if (pending[at].due_ns <= pending[child].due_ns) return;
        operation moved = pending[at];
        pending[at] = pending[child];
        pending[child] = moved;
    }
}

static void enter(operation one) {
    if (pending_count == PENDING_MAX) {
        fprintf(stderr, "more than %d operations are in flight\n", PENDING_MAX);
        exit(1);
    }
    pending[pending_count] = one;
    sift_up(pending_count++);
}

// Limits.

static void pass_next_limit(operation one) {
    limit *next = limits + one.next_limit;
    int64_t at_ns = one.due_ns, until_ns = through_limit(next, &one.asked, at_ns);
    if (until_ns == NEVER) {
        if (parked_count == PENDING_MAX) exit(1);
        parked[parked_count++] = one;
        return;
    }
    next->held_ns += until_ns - at_ns;
    one.due_ns = until_ns;
    one.next_limit++;
    enter(one);
}

// The end of a request lets the next one pass that waits for it.
static void release(const operation *ended) {
    for (int number = 0; number < limit_count; number++) {
        limit *one = limits + number;
        if (one->kind != IN_FLIGHT || !applies(one, &ended->asked)) continue;
        account *its = account_of(one, &ended->asked, ended->due_ns);
        its->in_flight--;
        for (int each = 0; each < parked_count; each++) {
            operation next = parked[each];
            if (next.next_limit != number || key_of(one, &next.asked) != its->key) continue;
            memmove(parked + each, parked + each + 1, (size_t)(--parked_count - each) * sizeof *parked);
            its->in_flight++;
            one->held_ns += ended->due_ns - next.due_ns;
            next.due_ns = ended->due_ns;
            next.next_limit++;
            enter(next);
            break;
        }
    }
}

static void report(void) {
    double seconds = (double)(reported.last_ns - reported.first_ns) / NANOS_PER_SECOND;
    printf("{\"operations\": %llu, \"seconds\": %.6f, \"in_server_s\": %.6f, \"late_s\": %.6f, \"held_s\": [",
           (unsigned long long)reported.operations, seconds, (double)reported.in_server_ns / NANOS_PER_SECOND,
           (double)reported.late_ns / NANOS_PER_SECOND);
    for (int each = 0; each < limit_count; each++) {
        printf("%s%.6f", each ? ", " : "", (double)limits[each].held_ns / NANOS_PER_SECOND);
        limits[each].held_ns = 0;
    }
    printf("]}\n");
    fflush(stdout);
    memset(&reported, 0, sizeof reported);
    report_wanted = 0;
}

static void count_operation(const operation *one, int64_t sent_ns) {
    if (one->count > LAYOUT_BYTES) return;
    if (!reported.operations++) reported.first_ns = one->arrival_ns;
    reported.last_ns = sent_ns;
    reported.in_server_ns += sent_ns - one->arrival_ns;
    reported.late_ns += sent_ns - one->due_ns;
}

static void record(const operation *one, int64_t sent_ns) {
    if (!entries) return;
    if (entry_count == entry_room) {
        entry_room *= 2;
        entries = realloc(entries, entry_room * sizeof *entries);
        if (!entries) fail("log");
    }
    entries[entry_count++] = (log_entry){(uint64_t)one->arrival_ns, (uint64_t)one->due_ns, (uint64_t)sent_ns,
                                         (uint64_t)one->service_ns, one->procedure};
}

static void finish_first(void) {
    operation one = pending[0];
    pending[0] = pending[--pending_count];
    sift_down();
    if (one.next_limit < limit_count) {
        pass_next_limit(one);
        return;
    }
    if (one.count <= LAYOUT_BYTES) release(&one);
    if (!one.from) return;  // its connection has gone
    answer made = answer_to(one.xid, ACCEPT_SUCCESS);
    put_u32(&made, 0);
    put_u32(&made, 0);
    if (one.procedure == WRITE) put_u32(&made, 0);
    put_u32(&made, one.count);
    if (one.procedure == WRITE) {
        put_u32(&made, 2);  // FILE_SYNC
        put_u64(&made, 1);  // write verifier
    } else {
        put_u32(&made, 0);  // not at the end
        put_u32(&made, one.count);
    }
    int64_t sent_ns = now_ns();
    record(&one, sent_ns);
    count_operation(&one, sent_ns);
    send_answer(one.from->socket, &made, one.procedure == READ ? one.count : 0);
}

// Calls.

static uint32_t get_u32(const uint8_t *from) {
    uint32_t big;
    memcpy(&big, from, 4);
    return be32toh(big);
}

static uint64_t get_u64(const uint8_t *from) {
    return (uint64_t)get_u32(from) << 32 | get_u32(from + 4);
}

// Reads a string or a handle; moves on behind it. Null if it is not whole.
static const uint8_t *get_opaque(const uint8_t *bytes, size_t length, size_t *at, uint32_t *size) {
    if (*at + 4 > length) return NULL;
    *size = get_u32(bytes + *at);
    const uint8_t *found = bytes + *at + 4;
    if (*size > length - *at - 4) return NULL;
    *at += 4 + (*size + 3) / 4 * 4;
    return found;
}

// Reads the size of the attributes that are to be set (sattr3).
static void get_size(const uint8_t *bytes, size_t length, size_t at, arguments *into) {
    for (int each = 0; each < 3; each++) {  // mode, owner, group
        if (at + 4 > length) return;
        at += get_u32(bytes + at) ? 8 : 4;
    }
    if (at + 12 > length || !get_u32(bytes + at)) return;
    into->sets_size = 1;
    into->size = get_u64(bytes + at + 4);
}

static arguments get_arguments(uint32_t procedure, const uint8_t *bytes, size_t length, size_t at) {
    arguments given = {0};
    uint32_t size;
    const uint8_t *handle = get_opaque(bytes, length, &at, &size);
    if (!handle || size != 8) return given;
    given.handle = get_u64(handle);
    if (procedure == SETATTR) get_size(bytes, length, at, &given);
    if (procedure != LOOKUP && procedure != CREATE && procedure != REMOVE) return given;
    const uint8_t *name = get_opaque(bytes, length, &at, &size);
    if (name && size <= NAME_BYTES_MAX) memcpy(given.name, name, size);
    // An exclusive CREATE (2) has a verifier instead of attributes.
    if (procedure == CREATE && at + 4 <= length && get_u32(bytes + at) != 2) get_size(bytes, length, at + 4, &given);
    return given;
}

// Takes a READ or WRITE, whose arguments begin with a handle of 8 bytes, an offset and a count.
static void take(connection *from, uint32_t xid, uint32_t procedure, const uint8_t *arguments, int64_t arrival_ns) {
    uint64_t file = get_u64(arguments + 4), offset = get_u64(arguments + 12);
    uint32_t count = get_u32(arguments + 20);
    operation one = {.arrival_ns = arrival_ns, .due_ns = arrival_ns, .from = from, .xid = xid, .procedure = procedure};
    one.count = count;
    one.asked = (request){procedure == WRITE, count, from->number, from->client, file, offset};
    if (!limit_count) {
        one.service_ns = next_service_ns(&plan.times);
        one.due_ns = due_of(arrival_ns, one.service_ns);
    } else {
        if (procedure == WRITE && *size_of(file) < offset + count) *size_of(file) = offset + count;
        if (count > LAYOUT_BYTES) one.next_limit = limit_count;
    }
    enter(one);
}

// Handles a call of `length` bytes; false if it is no call that this server can read.
static int call(connection *from, const uint8_t *bytes, size_t length, int64_t arrival_ns) {
    if (length < 32 || get_u32(bytes + 4) != 0) return 0;
    uint32_t xid = get_u32(bytes), program = get_u32(bytes + 12), procedure = get_u32(bytes + 20);
    size_t at = 24;
    for (int each = 0; each < 2; each++) {  // credential and verifier
        if (at + 8 > length) return 0;
        at += 8 + (get_u32(bytes + at + 4) + 3) / 4 * 4;
    }
    if (program == MOUNT_PROGRAM) {
        answer_mount(from, xid, procedure);
    } else if (procedure == READ || procedure == WRITE) {
        if (at + 24 > length || get_u32(bytes + at) != 8) return 0;
        if (get_u32(bytes + at + 20) > CALL_BYTES_MAX) return 0;
        take(from, xid, procedure, bytes + at, arrival_ns);
    } else {
        arguments given = get_arguments(procedure, bytes, length, at);
        answer_at_once(from, xid, procedure, &given);
    }
    return 1;
}

static void forget(int index) {
    connection *gone = connections[index];
    for (int each = 0; each < pending_count; each++)
        if (pending[each].from == gone) pending[each].from = NULL;
    for (int each = 0; each < parked_count; each++)
        if (parked[each].from == gone) parked[each].from = NULL;
    close(gone->socket);
    free(gone);
    connections[index] = connections[--connection_count];
}

// Reads what has arrived and handles whole calls; false once the connection has ended.
static int receive(connection *from) {
    ssize_t got = recv(from->socket, from->bytes + from->filled, sizeof from->bytes - from->filled, 0);
    int64_t arrival_ns = now_ns();
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    from->filled += (size_t)got;
    size_t at = 0;
    while (from->filled - at >= 4) {
        uint32_t mark = get_u32(from->bytes + at);
        size_t length = mark & 0x7fffffffu;
        if (!(mark >> 31) || length + 4 > sizeof from->bytes) return 0;
        if (from->filled - at < length + 4) break;
        if (!call(from, from->bytes + at + 4, length, arrival_ns)) return 0;
        at += length + 4;
    }
    memmove(from->bytes, from->bytes + at, from->filled -= at);
    return 1;
}

static void welcome(int listener) {
    static uint64_t number;
    struct sockaddr_in peer = {0};
    socklen_t length = sizeof peer;
    int socket = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;
    if (socket < 0) return;
    if (connection_count == CONNECTIONS_MAX) {
        close(socket);
        return;
    }
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connection *made = calloc(1, sizeof *made);
    if (!made) fail("connection");
    made->socket = socket;
    made->number = ++number;
    made->client = peer.sin_addr.s_addr;
    connections[connection_count++] = made;
}

// Waits for calls, but no longer than until shortly before the next answer is due.
static void wait_and_receive(int listener, const sigset_t *unblocked) {
    struct pollfd watched[CONNECTIONS_MAX + 1] = {{listener, POLLIN, 0}};
    for (int each = 0; each < connection_count; each++)
        watched[each + 1] = (struct pollfd){connections[each]->socket, POLLIN, 0};
    struct timespec left = {0, 0}, *patience = NULL;
    if (pending_count) {
        int64_t rest = pending[0].due_ns - now_ns() - spin_ns;
        if (rest > 0) left = (struct timespec){rest / NANOS_PER_SECOND, rest % NANOS_PER_SECOND};
        patience = &left;
    }
    if (ppoll(watched, (nfds_t)connection_count + 1, patience, unblocked) <= 0) return;
    for (int each = connection_count - 1; each >= 0; each--)
        if (watched[each + 1].revents && !receive(connections[each])) forget(each);
    if (watched[0].revents) welcome(listener);
}

static int listen_on_loopback(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void parse_options(int count, char **words, const char **log_path) {
    static const struct option OPTIONS[] = {
        {"service", 1, NULL, 's'}, {"seed", 1, NULL, 'r'}, {"slots", 1, NULL, 'n'}, {"stall", 1, NULL, 't'},
        {"cap", 1, NULL, 'c'},     {"log", 1, NULL, 'l'},  {"file-bytes", 1, NULL, 'b'}, {"limit", 1, NULL, 'm'},
        {"spin-us", 1, NULL, 'w'}, {NULL, 0, NULL, 0}};
    const char *service = "constant:0";
    uint64_t seed = 1;
    double at_s, length_s;
    for (int option; (option = getopt_long(count, words, "", OPTIONS, NULL)) != -1;) {
        int right = 1;
        switch (option) {
            case 's': service = optarg; break;
            case 'r': seed = strtoull(optarg, NULL, 10); break;
            case 'n': right = (plan.slots = atoi(optarg)) >= 0 && plan.slots <= SLOTS_MAX; break;
            case 'c': right = sscanf(optarg, "%lf:%lf", &plan.cap_per_s, &plan.cap_burst) == 2; break;
            case 'l': *log_path = optarg; break;
            case 'm': add_limit(optarg, seed); break;
            case 'w': spin_ns = atoll(optarg) * NANOS_PER_MICRO; break;
            case 'b': plan.file_bytes = strtoull(optarg, NULL, 10); break;
            case 't':
                right = plan.stall_count < STALLS_MAX && sscanf(optarg, "%lf:%lf", &at_s, &length_s) == 2;
                if (right) plan.stalls[plan.stall_count++] = (stall){(int64_t)(at_s * 1e9), (int64_t)(length_s * 1e9)};
                break;
            default: right = 0;
        }
        if (!right) {
            fprintf(stderr, "usage: stub_server [--log FILE] [--seed N] [--spin-us N] [--service SHAPE:US] [--slots N] "
                            "[--stall AT_S:FOR_S] [--cap PER_S:BURST] [--file-bytes N] [--limit KIND,KEY=VALUE,…]…\n");
            exit(2);
        }
    }
    plan.times = parse_service_times(service, seed);
}

static void stop(int number) {
    if (number == SIGUSR1) report_wanted = 1;
    else stopped = 1;
}

static void make_log(void) {
    entry_room = 1 << 20;
    entries = malloc(entry_room * sizeof *entries);
    if (!entries) fail("log");
    memset(entries, 0, entry_room * sizeof *entries);  // no page fault later
}

static void write_log(const char *path) {
    FILE *log = fopen(path, "wb");
    if (!log || fwrite(entries, sizeof *entries, entry_count, log) != entry_count || fclose(log)) fail("log");
}

int main(int count, char **words) {
    const char *log_path = NULL;
    parse_options(count, words, &log_path);
    prctl(PR_SET_TIMERSLACK, 1UL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t blocked, unblocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    // The program that starts this one may block them.
    sigdelset(&unblocked, SIGTERM);
    sigdelset(&unblocked, SIGUSR1);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = stop}, NULL);
    if (log_path) make_log();
    int listener = listen_on_loopback();
    while (!stopped) {
        while (pending_count && pending[0].due_ns <= now_ns()) finish_first();
        wait_and_receive(listener, &unblocked);
        if (report_wanted) report();
    }
    if (log_path) write_log(log_path);
    return 0;
}
