#if os(Linux)
import CSocketIO

// What rtnetlink lists (RFC 3549, section 3.1; rtnetlink(7)), as far as it matters to the way out of this machine.

extension NetlinkMessage {
    /// What a message is.
    package enum Content {
        /// A route, an interface, an address; there or, if it is told as a change, perhaps gone.
        case route(NetlinkRoute)
        case link(NetlinkLink)
        case address(NetlinkAddress)
        /// The end of a list.
        case done
        /// The kernel's answer to a request that it refused: an errno.
        case refused(Int32)
        /// Nothing that matters here.
        case other
        /// Not what its type promises.
        case malformed
    }

    /// What this message is.
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

    /// Whether the list that this message belongs to changed while it was written, and may lack something.
    package var isInterrupted: Bool { flags & UInt16(NLM_F_DUMP_INTR) != 0 }
}

/// A route (struct rtmsg).
package struct NetlinkRoute: Sendable, Hashable {
    /// Whether it is one of IPv6; otherwise of IPv4, or of a family that does not matter.
    package var isIPv6 = false
    /// Whether it leads everywhere, used or not.
    package var isEverywhere: Bool
    /// Whether it leads everywhere, and can be used now.
    package var isDefault = false
    /// The routing table; 254 is the main one.
    package var table: UInt32 = 0
    /// Its metric; the lowest wins.
    package var metric: UInt32 = 0
    /// The index of its interface; 0 if it names none.
    package var interface: Int32 = 0
    /// The next machine on the way, 4 or 16 bytes; none if the route is to the interface itself.
    package var gateway: ArraySlice<UInt8> = []

    /// Reads a route; `nil` if it is malformed.
    init?(_ message: NetlinkMessage) {
        let body = message.body
        guard let flags = body.number(at: 8, UInt32.self), let family = body.number(at: 0, UInt8.self),
            let length = body.number(at: 1, UInt8.self), let sourceLength = body.number(at: 2, UInt8.self),
            let table = body.number(at: 4, UInt8.self), let kind = body.number(at: 7, UInt8.self)
        else { return nil }
        self.table = UInt32(table)
        isIPv6 = family == AF_INET6
        isEverywhere = length == 0
        // Others (MPLS, multicast routing) have attributes of their own.
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
        // RTA_VIA has the family of the address before it.
        let address = type == Int(RTA_VIA.rawValue) ? value.dropFirst(2) : value
        guard type == Int(RTA_GATEWAY.rawValue) || type == Int(RTA_VIA.rawValue) else { return }
        if address.count == 4 || address.count == 16 { gateway = address }
    }

    /// Takes the first of several ways that is alive (struct rtnexthop); `false` if they are malformed.
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
    /// Its index.
    package var index: Int32
    /// Its name, at most 15 bytes.
    package var name = ""
    /// Whether it is switched on and has a carrier.
    package var isUp: Bool
    /// Whether it leads back to this machine.
    package var isLoopback: Bool

    /// Reads an interface; `nil` if it is malformed.
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
    /// The index of its interface.
    package var interface: Int32
    /// The address that the prefix is of, 4 or 16 bytes: this machine's, or the peer's of a point-to-point link.
    package var address: ArraySlice<UInt8> = []
    /// How many bits of it are the network's; at most those that it has.
    package var prefixLength: Int
    /// Whether it can be used to reach other machines than neighbours: neither loopback, nor link-local in IPv6, nor in
    /// doubt.
    package var isGlobal: Bool

    /// Reads an address; `nil` if it is malformed.
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
