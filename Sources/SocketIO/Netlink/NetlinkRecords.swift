#if os(Linux)
import CSocketIO

// The records of rtnetlink (RFC 3549, section 3.1; rtnetlink(7)), as far as they determine the routes out of this
// machine.

extension NetlinkMessage {
    /// The content of a message.
    package enum Content {
        /// A route. In a notification of a change, it may have been removed.
        case route(NetlinkRoute)
        /// An interface. In a notification of a change, it may have been removed.
        case link(NetlinkLink)
        /// An address. In a notification of a change, it may have been removed.
        case address(NetlinkAddress)
        /// The end of a list.
        case done
        /// The errno with which the kernel refused a request.
        case refused(Int32)
        /// A message without relevant content.
        case other
        /// A message that does not have the format of its type.
        case malformed
    }

    /// The parsed content of this message.
    package var content: Content {
        switch Int(type) {
        case Int(NLMSG_DONE): .done
        case Int(NLMSG_ERROR):
            body.number(at: 0, Int32.self).map { .refused($0 == .min ? .max : abs($0)) } ?? .malformed
        case Int(NLMSG_OVERRUN): .malformed
        case Int(RTM_NEWROUTE), Int(RTM_DELROUTE): NetlinkRoute(self).map { .route($0) } ?? .malformed
        case Int(RTM_NEWLINK), Int(RTM_DELLINK): NetlinkLink(self).map { .link($0) } ?? .malformed
        case Int(RTM_NEWADDR), Int(RTM_DELADDR): NetlinkAddress(self).map { .address($0) } ?? .malformed
        default: .other
        }
    }

    /// Whether the list that contains this message changed while it was written, so that it may be incomplete.
    package var isInterrupted: Bool { flags & UInt16(NLM_F_DUMP_INTR) != 0 }
}

/// A route (struct rtmsg).
package struct NetlinkRoute: Sendable, Hashable {
    /// Whether this is an IPv6 route. Otherwise it is an IPv4 route, or one of an irrelevant family.
    package var isIPv6 = false
    /// Whether the destination is all addresses. The route may be unusable.
    package var isEverywhere: Bool
    /// Whether the destination is all addresses and the route can be used now.
    package var isDefault = false
    /// The routing table. The main one is 254.
    package var table: UInt32 = 0
    /// The metric. The route with the lowest metric wins.
    package var metric: UInt32 = 0
    /// The index of the interface, or 0 if there is none.
    package var interface: Int32 = 0
    /// The address of the next router, 4 or 16 bytes. It is empty if the destination is directly on the interface.
    package var gateway: ArraySlice<UInt8> = []

    /// Reads a route. Returns `nil` if it is malformed.
    init?(_ message: NetlinkMessage) {
        let body = message.body
        guard let flags = body.number(at: 8, UInt32.self), let family = body.number(at: 0, UInt8.self),
            let length = body.number(at: 1, UInt8.self), let sourceLength = body.number(at: 2, UInt8.self),
            let table = body.number(at: 4, UInt8.self), let kind = body.number(at: 7, UInt8.self)
        else { return nil }
        self.table = UInt32(table)
        isIPv6 = family == AF_INET6
        isEverywhere = length == 0
        // Other families (MPLS, multicast routing) have different attributes.
        guard family == AF_INET || family == AF_INET6 else { return }
        var isAlive = Self.isAlive(flags)
        var attributes = message.attributes(behind: 12)
        while let (type, value) = attributes.next() {
            switch type {
            case Int(RTA_OIF.rawValue): interface = value.number(at: 0, Int32.self) ?? 0
            case Int(RTA_TABLE.rawValue): self.table = value.number(at: 0, UInt32.self) ?? self.table
            case Int(RTA_PRIORITY.rawValue): metric = value.number(at: 0, UInt32.self) ?? 0
            case Int(RTA_MULTIPATH.rawValue):
                guard readPaths(value, &isAlive) else { return nil }
            default: readGateway(type, value)
            }
        }
        if attributes.isMalformed { return nil }
        let isUnicast = Int(kind) == Int(RTN_UNICAST) && flags & UInt32(RTM_F_CLONED) == 0
        isDefault =
            length == 0 && sourceLength == 0 && isUnicast && isAlive && self.table != RT_TABLE_LOCAL.rawValue
    }

    private static func isAlive(_ flags: UInt32) -> Bool {
        flags & UInt32(RTNH_F_DEAD | RTNH_F_LINKDOWN) == 0
    }

    private mutating func readGateway(_ type: Int, _ value: ArraySlice<UInt8>) {
        // In RTA_VIA, the family precedes the address.
        let address = type == Int(RTA_VIA.rawValue) ? value.dropFirst(2) : value
        guard type == Int(RTA_GATEWAY.rawValue) || type == Int(RTA_VIA.rawValue) else { return }
        if address.count == 4 || address.count == 16 { gateway = address }
    }

    /// Uses the first path of a multipath route that is alive (struct rtnexthop). Returns `false` if the paths are
    /// malformed.
    private mutating func readPaths(_ value: ArraySlice<UInt8>, _ isAlive: inout Bool) -> Bool {
        var rest = value
        isAlive = false
        while !rest.isEmpty, !isAlive {
            guard let length = rest.number(at: 0, UInt16.self), let flags = rest.number(at: 2, UInt8.self),
                let index = rest.number(at: 4, Int32.self), length >= 8, length <= rest.count
            else { return false }
            if Self.isAlive(UInt32(flags)) {
                (isAlive, interface) = (true, index)
                var attributes = NetlinkAttributes(rest.prefix(Int(length)).dropFirst(8))
                while let (type, value) = attributes.next() { readGateway(type, value) }
                if attributes.isMalformed { return false }
            }
            rest = rest.dropFirst((Int(length) + 3) & ~3)
        }
        return true
    }
}

/// A network interface (struct ifinfomsg).
package struct NetlinkLink: Sendable, Hashable {
    /// The index of the interface.
    package var index: Int32
    /// The name of the interface, at most 15 bytes.
    package var name = ""
    /// Whether the interface is switched on and has a carrier.
    package var isUp: Bool
    /// Whether this is a loopback interface.
    package var isLoopback: Bool

    /// Reads an interface. Returns `nil` if it is malformed.
    init?(_ message: NetlinkMessage) {
        guard let index = message.body.number(at: 4, Int32.self), let flags = message.body.number(at: 8, UInt32.self),
            message.body.count >= 16
        else { return nil }
        self.index = index
        isUp = flags & UInt32(IFF_UP) != 0 && flags & UInt32(IFF_RUNNING) != 0
        isLoopback = flags & UInt32(IFF_LOOPBACK) != 0
        var attributes = message.attributes(behind: 16)
        while let (type, value) = attributes.next() {
            guard type == Int(IFLA_IFNAME) else { continue }
            name = String(decoding: value.prefix(15).prefix { $0 != 0 }, as: UTF8.self)
        }
        if attributes.isMalformed { return nil }
    }
}

/// An address of an interface (struct ifaddrmsg).
package struct NetlinkAddress: Sendable, Hashable {
    /// The index of the interface.
    package var interface: Int32
    /// The address to which the prefix belongs, 4 or 16 bytes. It is an address of this machine, or the peer's on a
    /// point-to-point link.
    package var address: ArraySlice<UInt8> = []
    /// The number of bits that belong to the network, at most the size of the address.
    package var prefixLength: Int
    /// Whether the address can reach machines other than neighbours. A loopback address, a link-local IPv6 address, and
    /// an address whose uniqueness is not confirmed cannot.
    package var isGlobal: Bool

    /// Reads an address. Returns `nil` if it is malformed.
    init?(_ message: NetlinkMessage) {
        let body = message.body
        guard let index = body.number(at: 4, Int32.self), let family = body.number(at: 0, UInt8.self),
            let length = body.number(at: 1, UInt8.self), let flags = body.number(at: 2, UInt8.self),
            let scope = body.number(at: 3, UInt8.self)
        else { return nil }
        interface = index
        let isDoubtful = Int(flags) & Int(IFA_F_TENTATIVE | IFA_F_DADFAILED) != 0
        let limit = family == AF_INET6 ? RT_SCOPE_LINK : RT_SCOPE_HOST
        var attributes = message.attributes(behind: 8)
        while let (type, value) = attributes.next() {
            guard type == Int(IFA_ADDRESS), value.count == (family == AF_INET6 ? 16 : 4) else { continue }
            address = value
        }
        if attributes.isMalformed { return nil }
        prefixLength = min(Int(length), address.count * 8)
        isGlobal = !address.isEmpty && UInt32(scope) < limit.rawValue && !isDoubtful
    }
}
#endif
