#define _GNU_SOURCE
#include "CNetwork.h"

#if defined(__linux__)
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Closes a descriptor and keeps errno. Returns `result`.
static int closed(int descriptor, int result) {
    int error = errno;
    close(descriptor);
    errno = error;
    return result;
}

static int write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t length = (ssize_t)strlen(text);
    return closed(file, write(file, text, (size_t)length) == length ? 0 : -1);
}

static int isolate(int with_user) {
    if (!with_user) return unshare(CLONE_NEWNET);
    unsigned int user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return -1;
    char map[64];
    // Without this, the kernel does not let an ordinary user map its group.
    if (write_text("/proc/self/setgroups", "deny") != 0) return -1;
    snprintf(map, sizeof map, "0 %u 1", user);
    if (write_text("/proc/self/uid_map", map) != 0) return -1;
    snprintf(map, sizeof map, "0 %u 1", group);
    return write_text("/proc/self/gid_map", map);
}

int cnetwork_isolate(int with_user) {
    // Some systems allow only a part of it, and a process cannot go back. So a child tries all of it first.
    pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) _exit(isolate(with_user) == 0 && cnetwork_set_up("lo", 0) == 0 ? 0 : errno);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        errno = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
        return -1;
    }
    return isolate(with_user);
}

int cnetwork_new_namespace(void) {
    if (unshare(CLONE_NEWNET) != 0) return -1;
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

int cnetwork_enter(int space) {
    return setns(space, CLONE_NEWNET);
}

// A netlink message under construction.
struct message {
    struct nlmsghdr header;
    char body[512];
};

static struct rtattr *tail(struct message *message) {
    return (struct rtattr *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));
}

// Adds an attribute. The few attributes of this file fit into the message.
static struct rtattr *add(struct message *message, unsigned short type, const void *value, size_t length) {
    struct rtattr *attribute = tail(message);
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    if (length > 0) memcpy(RTA_DATA(attribute), value, length);
    message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
    return attribute;
}

// Ends an attribute that contains the attributes after it.
static void end(struct message *message, struct rtattr *attribute) {
    attribute->rta_len = (unsigned short)((char *)tail(message) - (char *)attribute);
}

int cnetwork_add_pair(const char *outer, const char *inner, int space) {
    if (strlen(outer) >= IFNAMSIZ || strlen(inner) >= IFNAMSIZ) {
        errno = EINVAL;
        return -1;
    }
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0) return -1;
    struct message message;
    memset(&message, 0, sizeof message);
    message.header.nlmsg_type = RTM_NEWLINK;
    message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    message.header.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
    add(&message, IFLA_IFNAME, outer, strlen(outer) + 1);
    struct rtattr *information = add(&message, IFLA_LINKINFO, NULL, 0);
    add(&message, IFLA_INFO_KIND, "veth", 4);
    struct rtattr *data = add(&message, IFLA_INFO_DATA, NULL, 0);
    struct ifinfomsg none;
    memset(&none, 0, sizeof none);
    struct rtattr *peer = add(&message, VETH_INFO_PEER, &none, sizeof none);
    add(&message, IFLA_IFNAME, inner, strlen(inner) + 1);
    add(&message, IFLA_NET_NS_FD, &space, sizeof space);
    end(&message, peer);
    end(&message, data);
    end(&message, information);
    if (send(netlink, &message, message.header.nlmsg_len, 0) < 0) return closed(netlink, -1);
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[1024];
    } answer;
    ssize_t length = recv(netlink, &answer, sizeof answer, 0);
    if (length < 0) return closed(netlink, -1);
    if ((size_t)length < sizeof answer.header + sizeof answer.error.error || answer.header.nlmsg_type != NLMSG_ERROR) {
        errno = EPROTO;
        return closed(netlink, -1);
    }
    errno = -answer.error.error;
    return closed(netlink, errno == 0 ? 0 : -1);
}

static int interface_call(const char *name, unsigned long call, struct ifreq *request) {
    if (strlen(name) >= IFNAMSIZ) {
        errno = EINVAL;
        return -1;
    }
    strcpy(request->ifr_name, name);
    int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return -1;
    return closed(socket_, ioctl(socket_, call, request));
}

static int set_address(const char *name, unsigned long call, uint32_t address) {
    struct ifreq request;
    memset(&request, 0, sizeof request);
    struct sockaddr_in *target = (struct sockaddr_in *)&request.ifr_addr;
    target->sin_family = AF_INET;
    target->sin_addr.s_addr = htonl(address);
    return interface_call(name, call, &request);
}

int cnetwork_set_up(const char *name, uint32_t address) {
    if (address != 0) {
        if (set_address(name, SIOCSIFADDR, address) != 0) return -1;
        if (set_address(name, SIOCSIFNETMASK, 0xffffff00) != 0) return -1;
    }
    struct ifreq request;
    memset(&request, 0, sizeof request);
    if (interface_call(name, SIOCGIFFLAGS, &request) != 0) return -1;
    request.ifr_flags |= IFF_UP;
    return interface_call(name, SIOCSIFFLAGS, &request);
}

int cnetwork_disable_offloads(const char *name) {
    static const uint32_t commands[] = {ETHTOOL_STXCSUM, ETHTOOL_SRXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct ethtool_value value = {commands[i], 0};
        struct ifreq request;
        memset(&request, 0, sizeof request);
        request.ifr_data = (char *)&value;
        // Kernels differ in the offloads that can be switched. Checksums must be whole.
        if (interface_call(name, SIOCETHTOOL, &request) != 0 && i == 0) return -1;
    }
    return 0;
}

int cnetwork_open_packets(const char *name) {
    int descriptor = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (descriptor < 0) return -1;
    int on = 1, size = 4 << 20;
    // The bridge must not receive what it has sent.
    if (setsockopt(descriptor, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0) return closed(descriptor, -1);
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    struct sockaddr_ll address;
    memset(&address, 0, sizeof address);
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = (int)if_nametoindex(name);
    if (address.sll_ifindex == 0) return closed(descriptor, -1);
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) return closed(descriptor, -1);
    return descriptor;
}

unsigned int cnetwork_missed_packets(int descriptor) {
    struct tpacket_stats statistics;
    socklen_t length = sizeof statistics;
    return getsockopt(descriptor, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0 ? statistics.tp_drops : 0;
}

int cnetwork_wait(int first, int second, int third, int64_t nanoseconds) {
    struct pollfd descriptors[3] = {{first, POLLIN, 0}, {second, POLLIN, 0}, {third, POLLIN, 0}};
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    return ppoll(descriptors, 3, nanoseconds < 0 ? NULL : &time, NULL);
}

void cnetwork_use_exact_timers(void) {
    prctl(PR_SET_TIMERSLACK, 1UL);
}
#endif
