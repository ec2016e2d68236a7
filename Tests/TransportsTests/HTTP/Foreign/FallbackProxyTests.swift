import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// The fallback behind reverse proxies and tunnels of other projects, and behind our own middlebox.
@Suite("The fallback behind real proxies", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct FallbackProxyTests {
    /// Sends `count` messages and expects each back, in order, from the server and from the client.
    ///
    /// - Parameter change: Called while messages are on their way, after each of `parts` equal parts except the last one.
    private func echo(
        _ count: Int,
        over client: Supervisor,
        at host: FallbackHost,
        parts: Int = 1,
        change: (_ part: Int) async throws -> Void = { _ in }
    ) async throws {
        let messages = client.messages
        let (texts, before) = ((0..<count).map(String.init), host.received.count)
        let sending = Task { for text in texts { _ = try await client.submit(Payload(text: text)) } }
        var returned: [String] = []
        for await message in messages {
            returned.append(message.string)
            if returned.count == count { break }
            let (part, rest) = returned.count.quotientAndRemainder(dividingBy: count / parts)
            if rest == 0, part < parts { try await change(part) }
        }
        try await sending.value
        #expect(returned == texts)
        #expect(Array(host.received[before...]) == texts)
    }

    /// 10,000 messages each way while the middlebox becomes each of `kinds` in turn. The last of them lets WebSocket pass.
    private func changes<Kind>(
        _ kinds: [Kind],
        over client: Supervisor,
        at host: FallbackHost,
        become: (Kind) async throws -> Void
    ) async throws {
        client.connect()
        try await echo(10_000, over: client, at: host, parts: kinds.count + 1) { part in
            host.log.note(.changed)
            try await become(kinds[part - 1])
        }
        // WebSocket passes again, so the client goes back to it, and stays with it.
        await host.log.wait { $0.isBack }
        try await echo(100, over: client, at: host)
        #expect(host.log.all.isBack)
        await client.close()
    }

    // MARK: Reverse proxies

    private static let proxies = MiddleboxProcess.Kind.allCases.filter { !$0.passesUpgrades }

    @Test(
        "Behind a proxy without upgrades, the first attempt opens over HTTP",
        .enabled(if: Peers.nginx != nil && Peers.squid != nil && Peers.tinyproxy != nil && hasOpenSSL),
        arguments: proxies
    )
    func opens(kind: MiddleboxProcess.Kind) async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let proxy = try await MiddleboxProcess(kind, to: host.port)
        let client = try host.client(proxy.url)
        client.connect()
        try await echo(20, over: client, at: host)
        // The WebSocket did not reach the server, and the attempt went on in the same connect timeout.
        #expect(host.log.all == [.connecting(1), .http, .open])
        if kind.isNginx {
            let requests = try proxy.requests()
            // Where nginx has passed no byte of the event stream, the client gave it up after 2 s.
            #expect(requests.contains("long-poll 200") == (kind == .nginxCollecting), "\(requests)")
            #expect(requests.filter { $0.hasPrefix("sse") }.count == (kind == .nginxCollecting ? 1 : 0), "\(requests)")
        }
        await client.close()
        try await host.stop()
    }

    @Test(
        "Behind nginx that changes, 10,000 messages each way arrive once and in order, and WebSocket returns",
        .enabled(if: Peers.nginx != nil && hasOpenSSL)
    )
    func nginx() async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let proxy = try await MiddleboxProcess(.nginx, to: host.port)
        let client = try host.client("\(proxy.url)&retry-preferred=200ms")
        let kinds: [MiddleboxProcess.Kind] = [
            .nginxWithUpgrade, .nginxCollecting, .nginxWithKeepalive, .nginxRefusing, .nginxWithUpgrade,
        ]
        try await changes(kinds, over: client, at: host) { try await proxy.become($0) }
        try await host.stop()
    }

    @Test(
        "Behind squid that changes, 10,000 messages each way arrive once and in order, and WebSocket returns",
        .enabled(if: Peers.squid != nil && hasOpenSSL)
    )
    func squid() async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let proxy = try await MiddleboxProcess(.squid, to: host.port)
        let client = try host.client("\(proxy.url)&retry-preferred=200ms")
        let kinds: [MiddleboxProcess.Kind] = [.squidWithUpgrade, .squid, .squid, .squid, .squidWithUpgrade]
        try await changes(kinds, over: client, at: host) { try await proxy.become($0) }
        try await host.stop()
    }

    @Test(
        "Behind tinyproxy that nginx replaces, 10,000 messages each way arrive once and in order, and WebSocket returns",
        .enabled(if: Peers.tinyproxy != nil && Peers.nginx != nil)
    )
    func tinyproxy() async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let proxy = try await MiddleboxProcess(.tinyproxy, to: host.port, hasTLS: false)
        let client = try host.client("\(proxy.url)&retry-preferred=200ms")
        let kinds: [MiddleboxProcess.Kind] = [
            .nginxWithUpgrade, .tinyproxy, .tinyproxy, .tinyproxy, .nginxWithUpgrade,
        ]
        try await changes(kinds, over: client, at: host) { try await proxy.become($0) }
        try await host.stop()
    }

    // MARK: Tunnels

    @Test(
        "Through a tunnel of a proxy, WebSocket is used where it passes, and HTTP where it does not",
        .enabled(if: Peers.nginx != nil && Peers.squid != nil && Peers.tinyproxy != nil && hasOpenSSL),
        arguments: [MiddleboxProcess.Kind.squidTunnel, .tinyproxyTunnel]
    )
    func tunnels(kind: MiddleboxProcess.Kind) async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let tunnel = try await MiddleboxProcess(kind, to: host.port)
        for (kind, way) in [(MiddleboxProcess.Kind.nginxWithUpgrade, FallbackLog.Event.webSocket), (.nginx, .http)] {
            let proxy = try await MiddleboxProcess(kind, to: host.port)
            let client = try host.client("\(proxy.url)&proxy=http://127.0.0.1:\(tunnel.port)")
            client.connect()
            try await echo(1000, over: client, at: host)
            #expect(host.log.all.suffix(3) == [.connecting(1), way, .open])
            await client.close()
        }
        try await host.stop()
    }

    // MARK: Our own middlebox

    @Test("Behind a middlebox that resets WebSockets, the first attempt opens over HTTP")
    func opensAfterReset() async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let box = try Middlebox(to: host.port, .resetting)
        let client = try host.client("ws://127.0.0.1:\(box.port)/chat?fallback=on")
        client.connect()
        try await echo(20, over: client, at: host)
        #expect(host.log.all == [.connecting(1), .webSocket, .http, .open])
        await client.close()
        box.stop()
        try await host.stop()
    }

    @Test(
        "Behind a middlebox that changes, 10,000 messages each way arrive once and in order, and WebSocket returns"
    )
    func middlebox() async throws {
        let host = try await FallbackHost("ws://127.0.0.1:0/chat?fallback=on")
        let box = try Middlebox(to: host.port, .resetting)
        let client = try host.client("ws://127.0.0.1:\(box.port)/chat?fallback=on&retry-preferred=200ms")
        let modes: [Middlebox.Mode] = [.open, .resetting, .collecting, .withoutUpgrade, .open]
        try await changes(modes, over: client, at: host) { box.set($0) }
        box.stop()
        try await host.stop()
    }
}

extension MiddleboxProcess {
    /// The URL of a client with the fallback.
    fileprivate var url: String {
        hasTLS ? "wss://127.0.0.1:\(port)/chat?fallback=on&ca=\(authority)" : "ws://127.0.0.1:\(port)/chat?fallback=on"
    }
}
