#if os(Linux)
import CSocketIO

/// A socket on which the kernel tells of interfaces, addresses and routes (rtnetlink, RFC 3549). Belongs to the network
/// namespace of the thread that made it. Once attached, it lives on its loop's thread.
package final class NetlinkSocket {
    /// What a socket may listen to.
    package struct Groups: OptionSet, Sendable {
        /// The bits of RTMGRP.
        package let rawValue: UInt32

        /// Groups from their bits.
        package init(rawValue: UInt32) {
            self.rawValue = rawValue
        }

        /// Interfaces, addresses and routes, both of IPv4 and IPv6.
        package static let network = Groups(
            rawValue: UInt32(
                RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE
            )
        )
    }

    /// What the kernel can be asked to list.
    package enum Table: Sendable, CaseIterable {
        /// Routes, interfaces, addresses.
        case routes, links, addresses

        fileprivate var request: UInt16 {
            switch self {
            case .routes: UInt16(RTM_GETROUTE)
            case .links: UInt16(RTM_GETLINK)
            case .addresses: UInt16(RTM_GETADDR)
            }
        }
    }

    /// Room for a datagram; the kernel makes those of a list no longer than this (Documentation/userspace-api/netlink).
    package static let datagramSize = 32 * 1024

    private let loop: EventLoop
    private var descriptor: Descriptor?
    private var token: UInt64?

    /// A socket that hears of changes in `groups`; of none, if it is only to ask.
    package init(groups: Groups = [], on loop: EventLoop) throws(SystemError) {
        let raw = csocketio_netlink_open(groups.rawValue)
        guard raw >= 0 else { throw SystemError("netlink") }
        descriptor = Descriptor(raw)
        self.loop = loop
    }

    /// Starts reporting changes to `handler`, which the loop keeps alive until ``close()``.
    package func attach(_ handler: any PollHandler) throws(SystemError) {
        guard let raw = descriptor?.raw else { throw SystemError("attach", EBADF) }
        token = try loop.watch(raw, for: .read, handler)
    }

    /// Asks for a list; the answer is received in datagrams, the messages of which carry `sequence`.
    package func request(_ table: Table, sequence: UInt32) throws(SystemError) {
        guard csocketio_netlink_request(descriptor?.raw ?? -1, table.request, sequence) == 0 else {
            throw SystemError("netlink")
        }
    }

    /// Takes the next datagram of the kernel's. It fails with EMSGSIZE if it was longer than `buffer`, and with ENOBUFS if
    /// there were more than the socket can hold; both cost messages, not the socket.
    package func receive(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let raw = descriptor?.raw ?? -1
        let result = IOResult(csocketio_netlink_receive(raw, buffer.baseAddress, buffer.count), "netlink")
        if result == .wouldBlock, let token { loop.rearm(raw, token, .read) }
        return result
    }

    /// Closes the socket.
    package func close() {
        guard let raw = descriptor?.raw else { return }
        if let token { loop.unwatch(raw, token) }
        token = nil
        descriptor = nil
    }
}
#endif
