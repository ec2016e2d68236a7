#if os(Linux)
import CSocketIO

/// A socket on which the kernel reports interfaces, addresses and routes (rtnetlink, RFC 3549). It belongs to the
/// network namespace of the thread that created it. Once attached, it is used on its loop only.
package final class NetlinkSocket {
    /// The notifications that a socket receives.
    package struct Groups: OptionSet, Sendable {
        /// The bits of RTMGRP.
        package let rawValue: UInt32

        /// Creates a set from its bits.
        package init(rawValue: UInt32) {
            self.rawValue = rawValue
        }

        /// Interfaces, addresses and routes of IPv4 and IPv6.
        package static let network = Groups(
            rawValue: UInt32(
                RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE
            )
        )
    }

    /// The lists that the kernel can send.
    package enum Table: Sendable, CaseIterable {
        /// The routes.
        case routes
        /// The interfaces.
        case links
        /// The addresses.
        case addresses

        fileprivate var request: UInt16 {
            switch self {
            case .routes: UInt16(RTM_GETROUTE)
            case .links: UInt16(RTM_GETLINK)
            case .addresses: UInt16(RTM_GETADDR)
            }
        }
    }

    /// The size of a buffer for a datagram, in bytes: that which the kernel's documentation recommends for lists
    /// (Documentation/userspace-api/netlink/intro).
    package static let datagramSize = 32 * 1024

    private let loop: EventLoop
    private var descriptor: Descriptor?
    private var token: UInt64?

    /// Creates a socket that receives notifications of changes in `groups`. Without groups, it can only send requests.
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

    /// Requests a list. The answer arrives in datagrams whose messages carry `sequence`.
    package func request(_ table: Table, sequence: UInt32) throws(SystemError) {
        guard csocketio_netlink_request(descriptor?.raw ?? -1, table.request, sequence) == 0 else {
            throw SystemError("netlink")
        }
    }

    /// Receives the next datagram of the kernel. It fails with EMSGSIZE if the datagram was longer than `buffer`, and
    /// with ENOBUFS if the socket's buffer has overflowed. Messages are lost then, but the socket stays usable.
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
