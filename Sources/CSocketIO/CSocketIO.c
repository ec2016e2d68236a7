#define _GNU_SOURCE
#include "CSocketIO.h"

_Thread_local void *csocketio_current_loop_of_thread;

#if defined(__linux__)
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int csocketio_read_tcp_counts(int descriptor, struct csocketio_tcp_counts *counts) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return -1;
    if (size < offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans) return -1;
    counts->segments_out = info.tcpi_segs_out;
    counts->segments_in = info.tcpi_segs_in;
    counts->bytes_retransmitted = info.tcpi_bytes_retrans;
    counts->has_timestamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    return 0;
}

static char congestion_control[16];

void csocketio_set_congestion_control(const char *name) {
    strncpy(congestion_control, name, sizeof congestion_control - 1);
}

void csocketio_apply_congestion_control(int descriptor) {
    if (congestion_control[0] == 0) return;
    setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, congestion_control, (socklen_t)strlen(congestion_control));
}

int csocketio_congestion_control(char *name) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    csocketio_apply_congestion_control(descriptor);
    socklen_t length = 15;
    memset(name, 0, 16);
    int result = getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length);
    int error = errno;
    close(descriptor);
    errno = error;
    return result;
}

int csocketio_unacknowledged(int descriptor) {
    if (csocketio_is_simulated(descriptor)) {
        int answer = (int)CSOCKETIO_CALL(unacknowledged, descriptor);
        return answer > 0 ? answer : 0;
    }
    int bytes = 0;
    return ioctl(descriptor, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

// recvmmsg of a simulated kernel.
static int receive_many_simulated(int descriptor, void *buffer, size_t slot, unsigned int count, unsigned int *lengths,
                                  struct sockaddr_storage *senders, unsigned int *sender_lengths) {
    for (unsigned int i = 0; i < count; i++) {
        if (sender_lengths) sender_lengths[i] = sizeof(struct sockaddr_storage);
        ssize_t length;
        // A signal interrupts only a call that waits. A call that has received a datagram does not wait.
        do {
            length = csocketio_recvfrom(descriptor, (char *)buffer + i * slot, slot, (struct sockaddr *)(senders ? &senders[i] : NULL),
                                        sender_lengths ? &sender_lengths[i] : NULL);
        } while (length < 0 && errno == EINTR && i > 0);
        if (length < 0) return i > 0 ? (int)i : -1;
        lengths[i] = (size_t)length == slot ? 0 : (unsigned int)length;
    }
    return (int)count;
}

int csocketio_receive_many(int descriptor, void *buffer, size_t slot, unsigned int count, unsigned int *lengths,
                         struct sockaddr_storage *senders, unsigned int *sender_lengths) {
    struct mmsghdr messages[16];
    struct iovec parts[16];
    if (count > 16) count = 16;
    for (unsigned int i = 0; i < count; i++) {
        parts[i] = (struct iovec){ (char *)buffer + i * slot, slot };
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = senders ? &senders[i] : (void *)0,
            .msg_namelen = senders ? sizeof(struct sockaddr_storage) : 0,
            .msg_iov = &parts[i],
            .msg_iovlen = 1,
        };
    }
    if (csocketio_is_simulated(descriptor)) {
        return receive_many_simulated(descriptor, buffer, slot, count, lengths, senders, sender_lengths);
    }
    int received = recvmmsg(descriptor, messages, count, 0, (void *)0);
    for (int i = 0; i < received; i++) {
        lengths[i] = messages[i].msg_hdr.msg_flags & MSG_TRUNC ? 0 : messages[i].msg_len;
        if (sender_lengths) sender_lengths[i] = messages[i].msg_hdr.msg_namelen;
    }
    return received;
}

char **csocketio_environment(void) {
    return environ;
}

int csocketio_accept(int descriptor, struct sockaddr *address, unsigned int *length) {
    if (csocketio_is_simulated(descriptor)) return (int)CSOCKETIO_CALL(accept, descriptor, address, length);
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
#endif
