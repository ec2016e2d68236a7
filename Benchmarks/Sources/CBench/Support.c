#include "Support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int bound(int type) {
    int descriptor = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (descriptor >= 0 && bind(descriptor, (struct sockaddr *)&any, sizeof any) == 0) return descriptor;
    if (descriptor >= 0) close(descriptor);
    return -1;
}

static int connect_to(int descriptor, int other) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getsockname(other, (struct sockaddr *)&address, &length) < 0) return -1;
    return connect(descriptor, (struct sockaddr *)&address, length);
}

static int watch(struct side *side, int is_datagram) {
    int on = 1;
    // A UDP socket becomes writable again with each sent datagram, which would wake the thread for nothing.
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | (is_datagram ? 0 : EPOLLOUT)};
    if (!is_datagram) setsockopt(side->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(side->socket, F_SETFL, fcntl(side->socket, F_GETFL) | O_NONBLOCK);
    side->epoll = epoll_create1(EPOLL_CLOEXEC);
    return side->epoll < 0 ? -1 : epoll_ctl(side->epoll, EPOLL_CTL_ADD, side->socket, &event);
}

int cbench_connect_pair(int is_datagram, struct side *near, struct side *far) {
    *near = *far = (struct side){-1, -1};
    int type = is_datagram ? SOCK_DGRAM : SOCK_STREAM;
    int listener = bound(type);
    near->socket = bound(type);
    if (listener < 0 || near->socket < 0) goto failed;
    if (is_datagram) {
        far->socket = listener;
        listener = -1;
        if (connect_to(far->socket, near->socket) < 0 || connect_to(near->socket, far->socket) < 0) goto failed;
    } else {
        if (listen(listener, 1) < 0 || connect_to(near->socket, listener) < 0) goto failed;
        far->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (far->socket < 0) goto failed;
        close(listener);
        listener = -1;
    }
    if (watch(near, is_datagram) == 0 && watch(far, is_datagram) == 0) return 0;
failed:;
    int number = errno;
    if (listener >= 0) close(listener);
    cbench_close_side(near);
    cbench_close_side(far);
    errno = number;
    return -1;
}

void cbench_close_side(struct side *side) {
    if (side->epoll >= 0) close(side->epoll);
    if (side->socket >= 0) close(side->socket);
    *side = (struct side){-1, -1};
}

int cbench_wait(const struct side *side) {
    struct epoll_event event;
    int count;
    do count = epoll_wait(side->epoll, &event, 1, -1);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -1 : 0;
}

int cbench_send_all(const struct side *side, const void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t count = send(side->socket, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (count >= 0) done += (size_t)count;
        else if (errno == EAGAIN) { if (cbench_wait(side) < 0) return -1; }
        else if (errno != EINTR) return -1;
    }
    return 0;
}

int cbench_receive_all(const struct side *side, void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        if (cbench_wait(side) < 0) return -1;
        while (done < size) {
            ssize_t count = recv(side->socket, (char *)bytes + done, size - done, 0);
            if (count > 0) done += (size_t)count;
            else if (count == 0) return 1;
            else if (errno == EAGAIN) break;
            else if (errno != EINTR) return -1;
        }
    }
    return 0;
}

int cbench_start_thread(pthread_t *thread, int core, void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET((size_t)core, &cores);
        pthread_attr_setaffinity_np(&attributes, sizeof cores, &cores);
    }
    int number = pthread_create(thread, &attributes, body, argument);
    pthread_attr_destroy(&attributes);
    return number;
}

void cbench_fill(unsigned char *message, size_t size) {
    for (size_t index = 0; index < size; index++) message[index] = (unsigned char)(index * 31);
}
