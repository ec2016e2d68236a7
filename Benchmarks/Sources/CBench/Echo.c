#include "Support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct cbench_echo {
    struct side near, far;
    size_t there, back;
    unsigned char *sent, *answer, *received;
    uint64_t number;
    pthread_t thread;
};

static void *answer_all(void *argument) {
    struct cbench_echo *echo = argument;
    // The loop ends at the end of the stream, or at an empty datagram.
    while (cbench_receive_all(&echo->far, echo->received, echo->there) == 0) {
        if (cbench_send_all(&echo->far, echo->received + (echo->there - echo->back), echo->back) < 0) break;
    }
    return NULL;
}

static void release(struct cbench_echo *echo) {
    cbench_close_side(&echo->near);
    cbench_close_side(&echo->far);
    free(echo->sent);
    free(echo->answer);
    free(echo->received);
    free(echo);
}

cbench_echo *cbench_echo_open(int is_datagram, size_t there, size_t back, int far_core) {
    struct cbench_echo *echo = calloc(1, sizeof *echo);
    if (!echo) return NULL;
    echo->near = echo->far = (struct side){-1, -1};
    echo->there = there;
    echo->back = back;
    echo->sent = malloc(there);
    echo->answer = malloc(there);
    echo->received = malloc(there);
    int number = ENOMEM;
    if (echo->sent && echo->answer && echo->received) {
        cbench_fill(echo->sent, there);
        number = cbench_connect_pair(is_datagram, &echo->near, &echo->far) < 0 ? errno : 0;
        if (number == 0) number = cbench_start_thread(&echo->thread, far_core, answer_all, echo);
    }
    if (number == 0) return echo;
    release(echo);
    errno = number;
    return NULL;
}

long cbench_echo_run(cbench_echo *echo, int64_t end, int64_t *times, size_t capacity) {
    size_t count = 0;
    const unsigned char *expected = echo->sent + (echo->there - echo->back);
    int64_t before = cbench_now();
    while (count < capacity && before < end) {
        echo->number++;
        memcpy(echo->sent + echo->there - sizeof echo->number, &echo->number, sizeof echo->number);
        if (cbench_send_all(&echo->near, echo->sent, echo->there) < 0) return -1;
        int status = cbench_receive_all(&echo->near, echo->answer, echo->back);
        if (status != 0 || memcmp(echo->answer, expected, echo->back) != 0) {
            if (status >= 0) errno = EBADMSG;
            return -1;
        }
        int64_t now = cbench_now();
        times[count++] = now - before;
        before = now;
    }
    return (long)count;
}

void cbench_echo_close(cbench_echo *echo) {
    // This sends an empty datagram over UDP and nothing over TCP, where the shutdown ends the stream.
    send(echo->near.socket, "", 0, MSG_NOSIGNAL);
    shutdown(echo->near.socket, SHUT_WR);
    pthread_join(echo->thread, NULL);
    release(echo);
}
