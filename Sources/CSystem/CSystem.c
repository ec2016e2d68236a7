#define _GNU_SOURCE
#include "CSystem.h"

#if defined(__linux__)
#include <linux/tcp.h>
#include <stddef.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int csystem_read_tcp_counts(int descriptor, struct csystem_tcp_counts *counts) {
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

int csystem_accept(int descriptor) {
    return accept4(descriptor, (void *)0, (void *)0, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
#endif
