#if os(Linux)
import Protocols
import SocketIO
import TransportAPI

/// The state from which a network path is derived: the default routes of this machine. It takes the kernel's lists in
/// their order: first the routes, then the interfaces, then the addresses. Only entries of the best default routes are
/// kept.
struct NetworkState {
    /// The maximum number of default routes that are kept.
    static let routeLimit = 16
    private static let mainTable: UInt32 = 254

    private struct Exit {
        let route: NetlinkRoute
        let gateway: String
        var name = ""
        var isUp = false
        var prefix: (hasGateway: Bool, bytes: [UInt8], length: Int)?

        /// Returns whether this route is better than `other`. The main table comes before the tables of policies, IPv4
        /// (which has the NATs) before IPv6, and a lower metric before a higher one. The other fields only make the
        /// order unique.
        func precedes(_ other: Exit) -> Bool {
            let (mine, others) = (rank, other.rank)
            return mine != others ? mine.lexicographicallyPrecedes(others) : gateway < other.gateway
        }

        private var rank: [UInt32] {
            [
                route.table == NetworkState.mainTable ? 0 : 1, route.isIPv6 ? 1 : 0, route.metric, route.table,
                UInt32(bitPattern: route.interface),
            ]
        }
    }

    private var exits: [Exit] = []
    private var hasAddress = false

    /// Takes one entry of the kernel's lists.
    mutating func note(_ content: NetlinkMessage.Content) {
        switch content {
        case .route(let route): note(route)
        case .link(let link): note(link)
        case .address(let address): note(address)
        case .done, .refused, .other, .malformed: break
        }
    }

    /// The path. It is usable if a default route uses an interface that is up, and there is an address to send from.
    /// Its name is taken from the best such route: interface, gateway, and prefix of the interface's address.
    var path: NetworkPath {
        guard hasAddress, let exit = exits.first(where: { $0.isUp }) else { return NetworkPath(isUsable: false) }
        var words = [exit.name]
        if !exit.gateway.isEmpty { words.append(exit.gateway) }
        if let prefix = exit.prefix { words.append("\(Self.text(prefix.bytes[...]))/\(prefix.length)") }
        return NetworkPath(isUsable: true, network: words.joined(separator: " "))
    }

    private mutating func note(_ route: NetlinkRoute) {
        guard route.isDefault else { return }
        let exit = Exit(route: route, gateway: Self.text(route.gateway))
        let place = exits.firstIndex { exit.precedes($0) } ?? exits.count
        guard place < Self.routeLimit else { return }
        exits.insert(exit, at: place)
        if exits.count > Self.routeLimit { exits.removeLast() }
    }

    private mutating func note(_ link: NetlinkLink) {
        for index in exits.indices where exits[index].route.interface == link.index {
            exits[index].name = link.name
            exits[index].isUp = link.isUp && !link.isLoopback
        }
    }

    private mutating func note(_ address: NetlinkAddress) {
        guard address.isGlobal else { return }
        hasAddress = true
        let network = Self.masked(address.address, address.prefixLength)
        for index in exits.indices where exits[index].route.interface == address.interface {
            let route = exits[index].route
            guard (address.address.count == 16) == route.isIPv6 else { continue }
            let hasGateway =
                route.gateway.count == network.count && Self.masked(route.gateway, address.prefixLength) == network
            let candidate = (hasGateway: hasGateway, bytes: network, length: address.prefixLength)
            if let present = exits[index].prefix, !Self.isBetter(candidate, than: present) { continue }
            exits[index].prefix = candidate
        }
    }

    /// Returns whether one prefix is better than another. A prefix that contains the gateway is better. Otherwise the
    /// lowest one is, so that the order of the list has no effect.
    private static func isBetter(
        _ left: (hasGateway: Bool, bytes: [UInt8], length: Int),
        than right: (hasGateway: Bool, bytes: [UInt8], length: Int)
    ) -> Bool {
        if left.hasGateway != right.hasGateway { return left.hasGateway }
        if left.bytes != right.bytes { return left.bytes.lexicographicallyPrecedes(right.bytes) }
        return left.length < right.length
    }

    private static func masked(_ address: ArraySlice<UInt8>, _ length: Int) -> [UInt8] {
        address.enumerated().map { index, byte in
            let bits = min(max(length - index * 8, 0), 8)
            return byte & ~UInt8(truncatingIfNeeded: 0xff >> bits)
        }
    }

    private static func text(_ address: ArraySlice<UInt8>) -> String {
        guard address.count == 4 || address.count == 16 else { return "" }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = address.count == 4 ? AF_INET : AF_INET6
        let isWritten = address.withUnsafeBytes {
            inet_ntop(family, $0.baseAddress, &text, socklen_t(text.count)) != nil
        }
        guard isWritten else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
#endif
