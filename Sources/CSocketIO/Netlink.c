#include "CSocketIO.h"

#if defined(__linux__)
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int csocketio_netlink_open(unsigned int groups) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (descriptor < 0) return -1;
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    int number = errno;
    close(descriptor);
    errno = number;
    return -1;
}

int csocketio_netlink_request(int descriptor, unsigned short type, unsigned int sequence) {
    // Each type has its own second header. All zero, it requests everything.
    struct {
        struct nlmsghdr header;
        union {
            struct ifinfomsg link;
            struct ifaddrmsg address;
            struct rtmsg route;
        } body;
    } request;
    memset(&request, 0, sizeof request);
    size_t body = type == RTM_GETLINK ? sizeof request.body.link
        : type == RTM_GETADDR ? sizeof request.body.address : sizeof request.body.route;
    request.header.nlmsg_len = NLMSG_LENGTH(body);
    request.header.nlmsg_type = type;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.nlmsg_seq = sequence;
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t sent;
    do {
        sent = sendto(descriptor, &request, request.header.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

long csocketio_netlink_receive(int descriptor, void *buffer, size_t size) {
    while (1) {
        struct sockaddr_nl sender;
        memset(&sender, 0, sizeof sender);
        struct iovec part = { buffer, size };
        struct msghdr message = {
            .msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part, .msg_iovlen = 1,
        };
        ssize_t length = recvmsg(descriptor, &message, 0);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return -1;
        // Port 0 is the kernel's. Other processes, where they may send at all, have other ports.
        if (message.msg_namelen < sizeof sender || sender.nl_pid != 0) continue;
        if (message.msg_flags & MSG_TRUNC) {
            errno = EMSGSIZE;
            return -1;
        }
        return length;
    }
}
#endif
