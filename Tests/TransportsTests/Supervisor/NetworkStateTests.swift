#if os(Linux)
import SocketIO
import Testing
import TransportAPI

@testable import Transports

@Suite("Network path from netlink messages")
struct NetworkStateTests {
    private typealias Bytes = NetlinkBytes
    private static let v6: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    private static let home: [[UInt8]] = [
        Bytes.route(length: 24, gateway: []) + Bytes.route(),
        Bytes.link(1, "lo", flags: 0x1_0049) + Bytes.link(2, "eth0"),
        Bytes.address(1, [127, 0, 0, 1], 8, scope: 254) + Bytes.address(2, [192, 0, 2, 77], 24),
    ]

    @Test("The name of a network has the interface, the gateway and the prefix of the default route")
    func home() {
        let path = Bytes.state(Self.home[0], Self.home[1], Self.home[2]).path
        #expect(path == NetworkPath(isUsable: true, network: "eth0 192.0.2.1 192.0.2.0/24"))
    }

    @Test("The host part of an address and the order of addresses do not change the name")
    func stable() {
        let addresses = [
            Bytes.address(2, [10, 0, 0, 9], 8), Bytes.address(2, [192, 0, 2, 130], 25),
            Bytes.address(2, [192, 0, 2, 5], 25),
        ]
        let forward = Bytes.state(Bytes.route(), Self.home[1], Array(addresses.joined())).path
        let backward = Bytes.state(Bytes.route(), Self.home[1], Array(addresses.reversed().joined())).path
        #expect(forward == backward && forward.network == "eth0 192.0.2.1 192.0.2.0/25")
    }

    @Test("There is no network without a route, without an address, or behind an interface that is down")
    func unusable() {
        let (routes, links, addresses) = (Self.home[0], Self.home[1], Self.home[2])
        #expect(!Bytes.state(links, addresses).path.isUsable)
        #expect(!Bytes.state(routes, addresses).path.isUsable)
        #expect(!Bytes.state(routes, links, Bytes.address(1, [127, 0, 0, 1], 8, scope: 254)).path.isUsable)
        // The interface is off, has no carrier, or is loopback.
        for flags: UInt32 in [0x1002, 0x1003, 0x49] {
            #expect(!Bytes.state(routes, Bytes.link(2, "eth0", flags: flags), addresses).path.isUsable)
        }
        // The route is dead, down, unreachable, of the local table, or not a default route.
        let useless = [
            Bytes.route(flags: 1), Bytes.route(flags: 16), Bytes.route(kind: 7), Bytes.route(table: 255),
            Bytes.route(length: 8), Bytes.route(family: 28),
        ]
        for route in useless { #expect(!Bytes.state(route, links, addresses).path.isUsable) }
        // The IPv6 address is tentative or link-local.
        for (flags, scope): (UInt8, UInt8) in [(0x40, 0), (0x08, 0), (0x80, 253)] {
            let address = Bytes.address(2, Self.v6, 64, flags: flags, scope: scope)
            #expect(!Bytes.state(Bytes.route(family: 10, gateway: Self.v6), links, address).path.isUsable)
        }
    }

    @Test("The best working route gives the name: main table first, then IPv4, then the lowest metric")
    func preference() {
        let links = Bytes.link(2, "eth0", flags: 0x1003) + Bytes.link(3, "wlan0") + Bytes.link(4, "tun0")
        let routes = [
            Bytes.route(table: 51, interface: 4, gateway: [], metric: 0),
            Bytes.route(family: 10, interface: 3, gateway: Self.v6, metric: 1),
            Bytes.route(interface: 3, gateway: [198, 51, 100, 1], metric: 600), Bytes.route(),
        ]
        let addresses = Bytes.address(3, Self.v6, 64) + Bytes.address(3, [198, 51, 100, 7], 24)
        for order in [routes, routes.reversed()] {
            let state = Bytes.state(Array(order.joined()), links, addresses)
            #expect(state.path.network == "wlan0 198.51.100.1 198.51.100.0/24")
        }
        let overIPv6 = Bytes.state(routes[0] + routes[1], links, addresses)
        #expect(overIPv6.path.network == "wlan0 2001:db8::1 2001:db8::/64")
        #expect(Bytes.state(routes[0], links, addresses).path.network == "tun0")
    }

    @Test("Routes with several next hops, or with a gateway of the other address family, are understood")
    func oddRoutes() {
        func way(_ flags: UInt8, _ interface: Int32, _ attributes: [UInt8]) -> [UInt8] {
            Bytes.number(UInt16(8 + attributes.count)) + [flags, 0] + Bytes.number(interface) + attributes
        }
        let ways =
            way(16, 9, Bytes.attribute(5, [10, 0, 0, 1])) + way(0, 2, Bytes.attribute(5, [192, 0, 2, 1]))
        let multipath = Bytes.route(interface: 0, gateway: [], extra: Bytes.attribute(9, ways))
        #expect(Bytes.state(multipath, Self.home[1], Self.home[2]).path.network == "eth0 192.0.2.1 192.0.2.0/24")
        let via = Bytes.route(gateway: [], extra: Bytes.attribute(18, [10, 0] + Self.v6))
        #expect(Bytes.state(via, Self.home[1], Self.home[2]).path.network == "eth0 2001:db8::1 192.0.2.0/24")
    }

    @Test("The best of many default routes are kept")
    func bound() {
        var routes: [UInt8] = []
        for index in (0..<1000 as Range<Int32>).reversed() {
            routes += Bytes.route(interface: index + 2, metric: UInt32(index))
        }
        let (links, addresses) = (Self.home[1], Self.home[2])
        #expect(Bytes.state(routes, links, addresses).path.network == "eth0 192.0.2.1 192.0.2.0/24")
        #expect(!Bytes.state(routes, Bytes.link(900, "eth0"), addresses).path.isUsable)
    }

    @Test("Only changes that can matter cause a new reading")
    func matters() {
        #expect(!NetworkReader.matters(Bytes.route(length: 24)[...]))
        #expect(!NetworkReader.matters((Bytes.route(length: 24) + Bytes.message(28, []))[...]))
        let reasons = [
            Bytes.route(), Bytes.route(kind: 7), Bytes.link(2, "eth0"), Self.home[2], Bytes.route(length: 24) + [1],
            Bytes.message(24, [2]),
        ]
        for reason in reasons { #expect(NetworkReader.matters(reason[...])) }
    }

    @Test("A truncated datagram is detected, and the messages before the cut are understood")
    func truncation() {
        for whole in Self.home {
            for length in 0..<whole.count {
                var messages = NetlinkMessages(whole[..<length])
                var read = 0
                while let message = messages.next() {
                    _ = message.content
                    read += 16 + message.body.count
                }
                #expect(messages.isMalformed == (read < length))
            }
        }
        // The datagram is cut inside a message whose length claims to be complete.
        let body = Self.home[2].dropFirst(16).prefix(24)
        for length in body.indices.dropFirst(8) where !(length - body.startIndex).isMultiple(of: 8) {
            let cut = Bytes.message(20, Array(body[..<length]))
            if case .malformed = NetlinkMessages(cut[...]).first(where: { _ in true })?.content { continue }
            Issue.record("accepted at \(length) bytes")
        }
    }

    @Test("Damaged messages do no harm")
    func damage() {
        var random = RandomSource.seeded(11)
        let ways = Bytes.attribute(9, [16, 0, 0, 0, 2, 0, 0, 0] + Bytes.attribute(5, [1, 2, 3, 4]))
        let whole = Array(Self.home.joined()) + Bytes.route(interface: 0, gateway: [], extra: ways)
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                let index = Int.random(in: bytes.indices, using: &random)
                bytes[index] = UInt8.random(in: 0...255, using: &random)
            }
            let path = Bytes.state(Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))).path
            #expect(path.network.utf8.count <= 200)
            _ = NetworkReader.matters(bytes[...])
        }
        for _ in 0..<20_000 {
            let noise = (0..<Int.random(in: 0...64, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            for type: UInt16 in [2, 3, 16, 20, 24] { _ = Bytes.state(Bytes.message(type, noise)).path }
            _ = Bytes.state(noise).path
        }
    }
}
#endif
