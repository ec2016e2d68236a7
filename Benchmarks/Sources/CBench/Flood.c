#include "Support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct cbench_flood {
    struct side near, far;
    size_t size, batch;
    int owns_buffers, far_core;
    // Compares and frees a message. Returns 0 if it is the expected one. The call goes through a pointer, like a
    // library's call of its user.
    int (*volatile on_message)(struct cbench_flood *flood, unsigned char *message);
    unsigned char *message, *expected, *out, *in;
    // State of one run.
    int64_t count, finished;
    int number;
};

static int take_message(struct cbench_flood *flood, unsigned char *message) {
    int difference = memcmp(message, flood->expected, flood->size);
    free(message);
    return difference;
}

// Compares the whole messages in `have` bytes. Returns their number of bytes, or -1.
static long check(struct cbench_flood *flood, size_t have, uint64_t *next) {
    size_t frame = flood->size + 4, at = 0;
    for (; have - at >= frame; at += frame) {
        uint32_t length;
        memcpy(&length, flood->in + at, sizeof length);
        memcpy(flood->expected, next, sizeof *next);
        if (ntohl(length) != flood->size) return -1;
        if (flood->owns_buffers) {
            unsigned char *message = malloc(flood->size);
            if (!message) return -1;
            memcpy(message, flood->in + at + 4, flood->size);
            if (flood->on_message(flood, message) != 0) return -1;
        } else if (memcmp(flood->in + at + 4, flood->expected, flood->size) != 0) {
            return -1;
        }
        (*next)++;
    }
    return (long)at;
}

static void *take_all(void *argument) {
    struct cbench_flood *flood = argument;
    uint64_t next = 0;
    size_t have = 0;
    while (next < (uint64_t)flood->count) {
        ssize_t count = recv(flood->far.socket, flood->in + have, flood->batch - have, 0);
        if (count > 0) {
            have += (size_t)count;
            long used = check(flood, have, &next);
            if (used < 0) { flood->number = EBADMSG; break; }
            have -= (size_t)used;
            memmove(flood->in, flood->in + used, have);
        } else if (count == 0) {
            flood->number = ECONNRESET;
            break;
        } else if (errno == EAGAIN ? cbench_wait(&flood->far) < 0 : errno != EINTR) {
            flood->number = errno;
            break;
        }
    }
    flood->finished = cbench_now();
    // Ends a sender that still waits for room.
    if (flood->number != 0) shutdown(flood->far.socket, SHUT_RDWR);
    return NULL;
}

cbench_flood *cbench_flood_open(size_t size, size_t batch, int owns_buffers, int far_core) {
    struct cbench_flood *flood = calloc(1, sizeof *flood);
    if (!flood) return NULL;
    *flood = (struct cbench_flood){{-1, -1}, {-1, -1}, .size = size, .batch = batch,
                                   .owns_buffers = owns_buffers, .far_core = far_core, .on_message = take_message};
    flood->message = malloc(size);
    flood->expected = malloc(size);
    flood->out = malloc(batch);
    flood->in = malloc(batch);
    errno = size >= sizeof(uint64_t) && batch >= size + 4 ? ENOMEM : EINVAL;
    if (errno == ENOMEM && flood->message && flood->expected && flood->out && flood->in) {
        cbench_fill(flood->message, size);
        cbench_fill(flood->expected, size);
        if (cbench_connect_pair(0, &flood->near, &flood->far) == 0) return flood;
    }
    int number = errno;
    cbench_flood_close(flood);
    errno = number;
    return NULL;
}

int64_t cbench_flood_run(cbench_flood *flood, int64_t count) {
    pthread_t thread;
    flood->count = count;
    flood->number = 0;
    int number = cbench_start_thread(&thread, flood->far_core, take_all, flood);
    if (number != 0) { errno = number; return -1; }
    int64_t start = cbench_now();
    uint32_t length = htonl((uint32_t)flood->size);
    size_t held = 0;
    int sent = 0;
    for (uint64_t next = 0; next < (uint64_t)count && sent == 0; next++) {
        if (flood->batch - held < flood->size + 4) {
            sent = cbench_send_all(&flood->near, flood->out, held);
            held = 0;
        }
        memcpy(flood->message, &next, sizeof next);
        memcpy(flood->out + held, &length, sizeof length);
        memcpy(flood->out + held + 4, flood->message, flood->size);
        held += flood->size + 4;
    }
    if (sent == 0) sent = cbench_send_all(&flood->near, flood->out, held);
    number = errno;
    if (sent < 0) shutdown(flood->near.socket, SHUT_WR);
    pthread_join(thread, NULL);
    if (flood->number == 0 && sent == 0) return flood->finished - start;
    errno = flood->number != 0 ? flood->number : number;
    return -1;
}

void cbench_flood_close(cbench_flood *flood) {
    cbench_close_side(&flood->near);
    cbench_close_side(&flood->far);
    free(flood->message);
    free(flood->expected);
    free(flood->out);
    free(flood->in);
    free(flood);
}
