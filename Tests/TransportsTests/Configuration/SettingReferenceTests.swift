import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// The tables of options in Docs/reference/urls.md come from the declarations of the settings.
@Suite("The documented options")
struct SettingReferenceTests {
    /// The tables by the names in the page's comments: `<!-- options: NAME -->`.
    private static let tables: [(name: String, rows: [SettingRow])] = {
        let registry = TransportRegistry.standard
        func rows(_ scheme: String, server: Bool, without groups: [SettingRow]...) -> [SettingRow] {
            let transport = registry.transports.first { $0.name == scheme }
            let others = Set(groups.flatMap { $0 }.map(\.name))
            return (server ? transport?.serverSettings : transport?.clientSettings)?
                .filter { !others.contains($0.name) } ?? []
        }
        let connections = ConnectionLimits.settings(keepalive: .seconds(60)).rows
        let (proxies, servers) = (ProxySettings.settings.rows, ServerLimits.settings.rows)
        let tls = rows("tls", server: false, without: rows("tcp", server: false))
        let serverTLS = rows("tls", server: true, without: rows("tcp", server: true))
        var tables = [
            ("every connection", connections), ("clients over TCP", proxies), ("servers over TCP", servers),
            ("clients over TLS", tls), ("servers over TLS", serverTLS),
        ]
        // `keepalive-interval` of MQTT and of STOMP is their own.
        let limits = connections.filter { $0.name != "keepalive-interval" }
        for scheme in ["tcp", "ws", "http", "mqtt", "stomp", "xmpp", "udp", "memory"] {
            let shared = scheme == "mqtt" || scheme == "stomp" ? limits : connections
            tables.append(("\(scheme), client", rows(scheme, server: false, without: shared, proxies)))
            let streams = scheme == "udp" ? [] : servers
            tables.append(("\(scheme), server", rows(scheme, server: true, without: connections, streams)))
        }
        for (name, isServer) in [("client", false), ("server", true)] {
            tables.append(
                ("mqtt+ws, \(name)", rows("mqtt+ws", server: isServer, without: rows("mqtt", server: isServer)))
            )
            tables.append(
                ("stomp+ws, \(name)", rows("stomp+ws", server: isServer, without: rows("stomp", server: isServer)))
            )
        }
        let datagrams = rows("udp", server: true)
        tables.append(("dtls, server", rows("dtls", server: true, without: datagrams, serverTLS)))
        return tables
    }()

    /// Returns the table in Markdown. A URL has no quotes around its values.
    private static func markdown(_ rows: [SettingRow]) -> [String] {
        let lines = rows.map { row in
            let cells = ["`\(row.name)`", row.allowed, row.standard, row.meaning]
            return "| " + cells.map { $0.filter { $0 != "\"" } }.joined(separator: " | ") + " |"
        }
        return ["| option | allowed | default | meaning |", "|---|---|---|---|"] + lines
    }

    @Test("The page has the table of each list, as the code declares it")
    func page() throws {
        let page = try WrittenPage("reference/urls.md")
        #expect(page.names.sorted() == Self.tables.filter { !$0.rows.isEmpty }.map(\.name).sorted())
        let missing = try page.difference(from: page.with(Self.tables.map { ($0.name, Self.markdown($0.rows)) }))
        #expect(
            missing == nil,
            "write it again: IM_WRITE_TABLES=1 swift test --filter SettingReference; missing: \(missing ?? [])"
        )
    }

    @Test("Every option of every transport is in a table", arguments: TransportRegistry.standard.transports.map(\.name))
    func complete(scheme: String) throws {
        let transport = try TransportRegistry.standard.transport(named: scheme)
        let names = Set(Self.tables.flatMap(\.rows).map(\.name))
        for row in transport.clientSettings + transport.serverSettings { #expect(names.contains(row.name)) }
    }
}
