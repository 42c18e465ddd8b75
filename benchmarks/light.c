/* A load generator and an upstream that use almost no processor time: one thread, poll(2), keep-alive HTTP/1.1.
 *
 *   light serve ANSWER              print the port, serve the bytes of the file ANSWER until standard input ends
 *   light load PORT CONNECTIONS CALLS REQUEST LENGTH
 *                                   make the call of the file REQUEST, one in flight on each connection. An answer is
 *                                   right if it is a 200 with a body of LENGTH bytes.
 *
 * "load" prints a line "ELAPSED_S ERRORS", then one line for each right answer: its latency in ms.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PEERS = 4096, BUFFER = 65536, CALL_LIMIT_MS = 30000 };
static const double JOB_LIMIT_S = 60.0;

typedef struct {
    int used;
    double sent_s;
    char bytes[BUFFER];
} Peer;

typedef struct {
    long size;
    char *bytes;
} Message;

static struct pollfd polled[MAX_PEERS];
static Peer *peers[MAX_PEERS];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static Message read_message(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(name);
    Message message = {ftell(file), NULL};
    rewind(file);
    message.bytes = malloc((size_t)message.size + 1);
    if (!message.bytes || fread(message.bytes, 1, (size_t)message.size, file) != (size_t)message.size) fail(name);
    fclose(file);
    return message;
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void set_up(int index, int descriptor) {
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!peers[index] && !(peers[index] = malloc(sizeof(Peer)))) fail("malloc");
    peers[index]->used = 0;
    polled[index] = (struct pollfd){descriptor, POLLIN, 0};
}

static void hang_up(int index) {
    close(polled[index].fd);
    polled[index] = (struct pollfd){-1, 0, 0};
}

/* Messages are a few kilobytes, so they fit into the buffer of a socket. */
static int send_all(int descriptor, Message message) {
    return send(descriptor, message.bytes, (size_t)message.size, 0) == message.size;
}

/* Return the size of the body of the first message in the buffer, or -1 while the head is not complete. */
static long body_size(Peer *peer, long *head_size) {
    peer->bytes[peer->used] = 0;
    char *end = strstr(peer->bytes, "\r\n\r\n");
    if (!end) return -1;
    *head_size = end + 4 - peer->bytes;
    for (char *line = strstr(peer->bytes, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, "content-length:", 15)) return strtol(line + 17, NULL, 10);
    return 0;
}

/* Return what recv returns. A message that does not fit into the buffer is a fault, like the end of the connection. */
static long receive(int index) {
    Peer *peer = peers[index];
    long got = recv(polled[index].fd, peer->bytes + peer->used, (size_t)(BUFFER - 1 - peer->used), 0);
    if (got > 0) peer->used += (int)got;
    return got;
}

/* Remove the first message if it is complete. Return its size, or 0. */
static long take_message(Peer *peer, long *length) {
    long head = 0;
    *length = body_size(peer, &head);
    if (*length < 0 || peer->used < head + *length) return 0;
    long size = head + *length;
    peer->used -= (int)size;
    return size;
}

static int answer(int index, Message canned) {
    Peer *peer = peers[index];
    long length, size;
    if (receive(index) <= 0) return 0;
    while ((size = take_message(peer, &length))) {
        memmove(peer->bytes, peer->bytes + size, (size_t)peer->used);
        if (!send_all(polled[index].fd, canned)) return 0;
    }
    return 1;
}

static int listen_on_loopback(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

/* The first place is standard input, the second the listener. A free place has the descriptor -1. */
static void serve(Message canned) {
    int count = 2;
    polled[0] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    polled[1] = (struct pollfd){listen_on_loopback(), POLLIN, 0};
    while (poll(polled, (nfds_t)count, -1) > 0 && !polled[0].revents) {
        for (int index = 2; index < count; index++)
            if (polled[index].revents && !answer(index, canned)) hang_up(index);
        if (!polled[1].revents) continue;
        int place = 2;
        while (place < count && polled[place].fd >= 0) place++;
        int accepted = place < MAX_PEERS ? accept(polled[1].fd, NULL, NULL) : -1;
        if (accepted < 0) continue;
        set_up(place, accepted);
        if (place == count) count++;
    }
}

/* Return 1, or 0 after the last call: the connection is closed. */
static int start_call(int index, Message request, long *waiting) {
    if (*waiting <= 0) {
        hang_up(index);
        return 0;
    }
    --*waiting;
    peers[index]->sent_s = now_s();
    if (!send_all(polled[index].fd, request)) fail("send");
    return 1;
}

/* Return 1 after a right answer, 0 after a wrong one, -1 if the answer is not complete. */
static int take_answer(int index, long right_length) {
    Peer *peer = peers[index];
    long length;
    if (receive(index) <= 0) return 0;
    int ok = !strncmp(peer->bytes, "HTTP/1.1 200 ", 13);
    return take_message(peer, &length) ? ok && length == right_length : -1;
}

static void connect_all(int connections, int port) {
    struct sockaddr_in address = loopback(port);
    for (int index = 0; index < connections; index++) {
        int descriptor = socket(AF_INET, SOCK_STREAM, 0);
        if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("connect");
        set_up(index, descriptor);
    }
}

/* A connection that ends or that gets a wrong answer makes no more calls. Return how many connections are open. */
static int take_answers(int connections, long length, Message request, long *waiting, double *latencies_ms, long *right) {
    int open = 0;
    for (int index = 0; index < connections; index++) {
        if (polled[index].fd < 0) continue;
        int taken = polled[index].revents ? take_answer(index, length) : -1;
        if (taken == 1) {
            latencies_ms[(*right)++] = 1000 * (now_s() - peers[index]->sent_s);
            open += start_call(index, request, waiting);
        } else if (taken == 0) {
            hang_up(index);
        } else {
            open++;
        }
    }
    return open;
}

/* Calls without a right answer count as errors. */
static void load(int port, int connections, long calls, Message request, long length) {
    double *latencies_ms = calloc((size_t)calls, sizeof *latencies_ms);
    long waiting = calls, right = 0;
    int open = 0;
    if (!latencies_ms) fail("calloc");
    connect_all(connections, port);
    double started = now_s();
    for (int index = 0; index < connections; index++) open += start_call(index, request, &waiting);
    while (open && now_s() - started < JOB_LIMIT_S && poll(polled, (nfds_t)connections, CALL_LIMIT_MS) > 0)
        open = take_answers(connections, length, request, &waiting, latencies_ms, &right);
    printf("%.6f %ld\n", now_s() - started, calls - right);
    for (long number = 0; number < right; number++) printf("%.4f\n", latencies_ms[number]);
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN);
    if (count == 3 && !strcmp(arguments[1], "serve")) {
        serve(read_message(arguments[2]));
    } else if (count == 7 && !strcmp(arguments[1], "load")) {
        int connections = atoi(arguments[3]);
        if (connections < 1 || connections > MAX_PEERS) return 2;
        load(atoi(arguments[2]), connections, atol(arguments[4]), read_message(arguments[5]), atol(arguments[6]));
    } else {
        return 2;
    }
    return 0;
}
