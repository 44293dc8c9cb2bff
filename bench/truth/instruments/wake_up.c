// Measures this machine's own delays, beside which the truth bench puts iocurve's surplus. Prints one number per line,
// in ns.
//
// wake_up sleep COUNT NS: how late a thread wakes up that sleeps until an absolute instant NS away.
// wake_up exchange COUNT NS REQUEST REPLY: what an exchange of so many bytes over a TCP connection on loopback takes
// beyond the NS that the answering process waits.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service_times.h"

enum { BYTES_MAX = 1 << 20 };

static uint8_t bytes[BYTES_MAX];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void measure_sleep(int count, int64_t length_ns) {
    for (int each = 0; each < count; each++) {
        int64_t wanted_ns = now_ns() + length_ns;
        sleep_until(wanted_ns);
        printf("%ld\n", (long)(now_ns() - wanted_ns));
    }
}

static void receive(int socket, size_t length) {
    for (size_t got = 0; got < length;) {
        struct pollfd one = {socket, POLLIN, 0};
        poll(&one, 1, -1);
        ssize_t part = recv(socket, bytes, length - got, 0);
        if (part <= 0) exit(part < 0);
        got += (size_t)part;
    }
}

static void deliver(int socket, size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t part = send(socket, bytes, length - sent, MSG_NOSIGNAL);
        if (part <= 0) fail("send");
        sent += (size_t)part;
    }
}

// Answers each request after `wait_ns`, and puts the time that it held the request into the answer.
static void answer(int socket, int64_t wait_ns, size_t request, size_t reply) {
    for (;;) {
        receive(socket, request);
        int64_t begin_ns = now_ns();
        wait_until(begin_ns + wait_ns);
        int64_t held_ns = now_ns() - begin_ns;
        memcpy(bytes, &held_ns, sizeof held_ns);
        deliver(socket, reply);
    }
}

static void ask(int socket, int count, size_t request, size_t reply) {
    for (int each = 0; each < count; each++) {
        int64_t begin_ns = now_ns(), held_ns = 0;
        deliver(socket, request);
        receive(socket, sizeof held_ns);
        memcpy(&held_ns, bytes, sizeof held_ns);
        receive(socket, reply - sizeof held_ns);
        printf("%ld\n", (long)(now_ns() - begin_ns - held_ns));
    }
}

static void measure_exchange(int count, int64_t wait_ns, size_t request, size_t reply) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        fail("listen");
    pid_t child = fork();
    if (child == 0) {
        int peer = accept(listener, NULL, NULL);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        prctl(PR_SET_TIMERSLACK, 1UL);
        answer(peer, wait_ns, request, reply);
    }
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (child < 0 || connect(peer, (struct sockaddr *)&address, sizeof address)) fail("connect");
    ask(peer, count, request, reply);
    close(peer);
    waitpid(child, NULL, 0);
}

int main(int count, char **words) {
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (count == 4 && !strcmp(words[1], "sleep")) {
        measure_sleep(atoi(words[2]), atoll(words[3]));
    } else if (count == 6 && !strcmp(words[1], "exchange") && atoi(words[4]) <= BYTES_MAX &&
               atoi(words[5]) <= BYTES_MAX && atoi(words[5]) > 8) {
        measure_exchange(atoi(words[2]), atoll(words[3]), (size_t)atoi(words[4]), (size_t)atoi(words[5]));
    } else {
        fprintf(stderr, "usage: wake_up sleep COUNT NS | wake_up exchange COUNT NS REQUEST_BYTES REPLY_BYTES\n");
        return 2;
    }
    return 0;
}
