import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Handshakes of DTLS over bad networks, with wrong peers, and with peers that follow no rules.
@Suite("Handshakes of DTLS", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct DTLSHandshakeTests {
    /// Connects through a relay and exchanges a message. Returns the error of the attempt.
    private func connect(
        _ host: TLSHost,
        _ options: EndpointOptions,
        timeout: Duration = .seconds(60),
        rule: @escaping DatagramRelay.Rule
    ) async throws -> (error: TransportError?, relay: DatagramRelay) {
        let relay = try DatagramRelay(to: host.port, rule: rule)
        defer { relay.stop() }
        let endpoint = tlsEndpoint("dtls", port: relay.port, options + ["reliable": "ordered"])
        do throws(TransportError) {
            let transport = try TransportRegistry.standard.transport(for: endpoint)
            let client = try await transport.connect(timeout: timeout)
            #expect(await client.send(Payload(text: "hello")).isSuccess)
            let echo = try await client.receive()
            #expect(echo?.bytes == Array("hello".utf8))
            await client.close()
            return (nil, relay)
        } catch {
            return (error, relay)
        }
    }

    /// Runs `body` with a server that echoes.
    private func serving(_ host: TLSHost, _ body: () async throws -> Void) async throws {
        let echoing = Task {
            while let server = try await host.listener.accept() {
                Task {
                    while let message = try await server.receive() { _ = await server.send(message) }
                }
            }
        }
        try await body()
        await host.stop()
        echoing.cancel()
    }

    // MARK: Bad networks

    /// The treatment of one datagram.
    enum Fate: CaseIterable { case lost, doubled, late, cut, cutToHeader, flipped }

    @Test("A handshake survives the loss, the repetition and the delay of each of its datagrams, and ends otherwise")
    func eachDatagram() async throws {
        let certificates = try TestCertificates()
        // About 70 handshakes run at the same time.
        let options: EndpointOptions = certificates.serverOptions + ["tls-timeout": "60s"]
        let host = try await TLSHost("dtls", certificates.server, options)
        try await serving(host) {
            let (error, relay) = try await connect(host, certificates.clientOptions) { [$2] }
            #expect(error == nil)
            let counts = [DatagramRelay.Side.client, .server].map { side in
                // The datagrams up to the first one that is a message of the application.
                relay.seen.filter { $0.sender == side }.prefix { $0.datagram.first != 23 }.count
            }
            #expect(counts.allSatisfy { (2...12).contains($0) }, "\(counts)")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (side, count) in zip([DatagramRelay.Side.client, .server], counts) {
                    for (index, fate) in (0..<count).flatMap({ index in Fate.allCases.map { (index, $0) } }) {
                        group.addTask { try await check(fate, side, index, host, certificates) }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    private func check(
        _ fate: Fate,
        _ side: DatagramRelay.Side,
        _ index: Int,
        _ host: TLSHost,
        _ certificates: TestCertificates
    ) async throws {
        let held = Locked<[UInt8]?>(nil)
        let (error, _) = try await connect(host, certificates.clientOptions) { number, sender, datagram in
            guard sender == side, number == index else {
                guard sender == side, let late = held.withLock({ $0.take() }) else { return [datagram] }
                return [datagram, late]
            }
            switch fate {
            case .lost: return []
            case .doubled: return [datagram, datagram]
            case .late:
                held.withLock { $0 = datagram }
                return []
            case .cut: return [Array(datagram.prefix(datagram.count / 2))]
            case .cutToHeader: return [Array(datagram.prefix(13))]
            case .flipped:
                var changed = datagram
                changed[datagram.count * 2 / 3] ^= 0x10
                return [changed]
            }
        }
        switch fate {
        case .lost, .doubled, .late, .cut, .cutToHeader:
            #expect(error == nil, "\(fate) \(side) \(index): \(String(describing: error))")
        case .flipped:
            // A flipped bit of a message that is not encrypted can make the handshake fail. The error says how.
            guard let error else { break }
            #expect(error.phase == .secure && !error.reason.isEmpty, "\(fate) \(side) \(index): \(error)")
        }
    }

    @Test("A handshake completes on a path that carries small datagrams only")
    func smallPath() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, certificates.serverOptions)
        try await serving(host) {
            let (error, _) = try await connect(host, certificates.clientOptions) { $2.count > 560 ? [] : [$2] }
            #expect(error == nil, "\(String(describing: error))")
        }
    }

    // MARK: Wrong peers

    @Test("A certificate for another name, of an unknown authority, or with another key is refused")
    func wrongCertificates() async throws {
        let certificates = try TestCertificates()
        let other = try ThrowAwayAuthority("Other authority")
        let pin = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        let rows: [(EndpointOptions, TLSProblem)] = [
            (["ca": certificates.authority, "server-name": "chat.example"], .wrongHost),
            (["ca": other.certificate], .unknownIssuer),
            (["ca": certificates.authority, "pin": pin], .pinMismatch),
        ]
        for (options, problem) in rows {
            let host = try await TLSHost("dtls", certificates.server)
            let error = try await host.refusal(options)
            #expect(error.tlsProblem == problem && error.code == .certificateRejected, "\(error)")
            #expect(error.phase == .secure && !error.isRetryable)
            let seen = try await host.events.firstError()
            #expect(seen.tlsProblem == .certificateRefused, "\(seen)")
            await host.stop()
        }
        let host = try await TLSHost("dtls", certificates.server)
        let (client, _) = try await host.pair(["dangerously-trust-any-certificate": "on"])
        #expect(client.encryption?.isVerified == false)
        await client.close()
        await host.stop()
    }

    @Test("A client with a certificate of an unknown authority is refused on both sides")
    func unknownClient() async throws {
        let certificates = try TestCertificates()
        let eve = try ThrowAwayAuthority("Other authority").issue(.init("eve"))
        let host = try await TLSHost("dtls", certificates.server, certificates.serverOptions)
        let own: EndpointOptions = ["ca": certificates.authority, "certificate": eve.certificate, "key": eve.key]
        let error = try await host.refusal(own)
        #expect(error.tlsProblem == .certificateRefused && error.code == .authenticationFailed, "\(error)")
        let seen = try await host.events.firstError()
        #expect(seen.tlsProblem == .unknownIssuer && seen.reason.contains("subject 'CN=eve'"), "\(seen)")
        await host.stop()
    }

    /// A fatal alert that is not encrypted.
    private static func alert(_ number: UInt8) -> [UInt8] {
        [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, number]
    }

    @Test(
        "An alert that any host can send ends no handshake, also behind an empty record",
        arguments: [10, 40, 48, 70, 116] as [UInt8],
        [[], [22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]] as [[UInt8]]
    )
    func forgedAlert(number: UInt8, prefix: [UInt8]) async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, certificates.serverOptions)
        try await serving(host) {
            let (error, _) = try await connect(host, certificates.clientOptions) { index, sender, datagram in
                sender == .server ? [prefix + Self.alert(number), datagram] : [datagram]
            }
            #expect(error == nil, "\(String(describing: error))")
        }
    }

    @Test("A server that answers with nothing but an alert has refused, also if the time limit is short")
    func refusalByAlert() async throws {
        let relay = try DatagramRelay(to: 9) { _, _, _ in [] }
        defer { relay.stop() }
        relay.set { _, sender, _ in
            if sender == .client { relay.inject(Self.alert(40), to: .client) }
            return []
        }
        let transport = try TransportRegistry.standard.transport(for: tlsEndpoint("dtls", port: relay.port))
        var error: TransportError?
        // On a busy machine, the alert can come later than this time limit.
        repeat {
            error = await #expect(throws: TransportError.self) {
                try await transport.connect(timeout: .milliseconds(900))
            }
        } while error?.code == .timedOut
        #expect(error?.tlsProblem == .noCommonAlgorithm && error?.isRetryable == false, "\(String(describing: error))")
    }

    @Test("A supervisor goes on after an alert that any host can send, also if the handshake stops for a while")
    func forgedAlertForSupervisor() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, certificates.serverOptions)
        try await serving(host) {
            // The first answer of the server is lost, and an alert comes in its place.
            let relay = try DatagramRelay(to: host.port) { index, sender, datagram in
                sender == .server && index == 0 ? [Self.alert(40)] : [datagram]
            }
            defer { relay.stop() }
            let supervisor = try Supervisor(tlsEndpoint("dtls", port: relay.port, certificates.clientOptions))
            supervisor.connect()
            #expect(await supervisor.send(Payload(text: "hello")).isSuccess)
            await supervisor.close()
        }
    }

    @Test(
        "A client that continues a session and sends at once gets through, although the end of its handshake was lost"
    )
    func earlyMessages() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, ["plain": "on"])
        let isLost = Locked(false)
        let relay = try DatagramRelay(to: host.port) { _, sender, datagram in
            // The first datagram with ChangeCipherSpec of the resumed handshake.
            guard sender == .client, datagram.first == 20, isLost.withLock({ $0 }) else { return [datagram] }
            isLost.withLock { $0 = false }
            return []
        }
        defer { relay.stop() }
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority, "plain": "on"])
        let registry = TransportRegistry.standard
        async let first = host.listener.accept()
        let client = try await registry.connect(endpoint)
        #expect(await client.send(Payload(text: "hello")).isSuccess)
        #expect(try await first?.receive()?.bytes == Array("hello".utf8))
        await client.close()
        isLost.withLock { $0 = true }
        let second = try await registry.connect(endpoint)
        #expect(second.encryption?.isResumed == true)
        for _ in 0..<40 { _ = await second.send(Payload(text: "early")) }
        // The server repeats its part of the handshake, and the client then repeats its own. The relay keeps the order.
        await relay.wait { seen in seen.count { $0.sender == .client && $0.datagram.first == 20 } >= 2 }
        #expect(!isLost.withLock { $0 })
        #expect(await second.send(Payload(text: "late")).isSuccess)
        let server = try #require(try await host.listener.accept())
        while try await server.receive()?.bytes != Array("late".utf8) {}
        await second.close()
        await host.stop()
    }

    @Test("A silent server is reported after the time limit")
    func silentServer() async throws {
        let relay = try DatagramRelay(to: 9) { _, _, _ in [] }
        defer { relay.stop() }
        let transport = try TransportRegistry.standard.transport(for: tlsEndpoint("dtls", port: relay.port))
        let error = await #expect(throws: TransportError.self) {
            try await transport.connect(timeout: .seconds(10))
        }
        #expect(error?.code == .timedOut && error?.phase == .secure && error?.isRetryable == true)
        #expect(error?.reason.contains("the server did not answer the DTLS handshake") == true)
        // It has repeated its first datagram. The relay can receive it later than the attempt ends.
        await relay.wait { $0.count >= 2 }
        #expect(relay.seen.count >= 2)
    }

    @Test("A port without a server is reported")
    func nothingListens() async throws {
        let reserved = try ReservedPort(isDatagram: true)
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.connect(tlsEndpoint("dtls", port: reserved.port))
        }
        #expect(error?.code == .refused && error?.reason.contains("nothing listens on this UDP port") == true)
        withExtendedLifetime(reserved) {}
    }

    @Test("A client without encryption learns that the server speaks DTLS")
    func plainClient() async throws {
        let host = try await TLSHost("dtls", try TestCertificates().server)
        let transport = try TransportRegistry.standard.transport(for: tlsEndpoint("udp", port: host.port))
        let error = await #expect(throws: TransportError.self) {
            try await transport.connect(timeout: .seconds(10))
        }
        #expect(error?.code == .timedOut && error?.phase == .handshake)
        #expect(error?.reason.contains("the server speaks DTLS: use dtls://") == true, "\(String(describing: error))")
        let seen = try await host.events.firstError()
        #expect(seen.tlsProblem == .plainText && seen.reason.contains("it must use dtls:// instead of udp://"))
        await host.stop()
    }

    @Test("A client of DTLS learns that the server is plain")
    func plainServer() async throws {
        let events = ObservedEvents()
        let listener = try await TransportRegistry.standard.listen("udp://127.0.0.1:0", observer: events.observer)
        let endpoint = tlsEndpoint("dtls", port: listener.endpoint.port)
        let transport = try TransportRegistry.standard.transport(for: endpoint)
        let error = await #expect(throws: TransportError.self) {
            try await transport.connect(timeout: .seconds(10))
        }
        #expect(error?.code == .timedOut && error?.phase == .secure)
        #expect(error?.reason.contains("use udp://") == true, "\(String(describing: error))")
        let seen = try await events.firstError()
        #expect(seen.reason == "the client speaks DTLS; this listener is plain: use udp://")
        #expect(seen.tlsProblem == .unexpectedTLS)
        await listener.close()
    }

    // MARK: Peers that follow no rules

    /// A ClientHello that a client has sent.
    private func recordedHello() async throws -> [UInt8] {
        let (hellos, continuation) = AsyncStream.makeStream(of: [UInt8].self)
        let relay = try DatagramRelay(to: 9) { _, _, datagram in
            continuation.yield(datagram)
            return []
        }
        defer { relay.stop() }
        let transport = try TransportRegistry.standard.transport(for: tlsEndpoint("dtls", port: relay.port))
        let attempt = Task { _ = try? await transport.connect(timeout: .seconds(30)) }
        defer { attempt.cancel() }
        for await hello in hellos { return hello }
        throw CancellationError()
    }

    @Test("A ClientHello without a cookie gets a shorter HelloVerifyRequest, and no state")
    func noState() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, ["max-handshakes": "1"])
        let hello = try await recordedHello()
        let held = Locked<DatagramRelay.Side?>(nil)
        // The relay holds the only handshake that the server allows, while 200 addresses send a ClientHello.
        let raw = try (0..<200).map { _ in try RawDatagramClient(port: host.port) }
        try await serving(host) {
            let (error, _) = try await connect(host, ["ca": certificates.authority]) { number, sender, datagram in
                guard sender == .server, number == 1, held.withLock({ $0 }) == nil else { return [datagram] }
                held.withLock { $0 = sender }
                for client in raw {
                    client.send(hello)
                    let answer = client.receiveAny()
                    #expect(answer.first == 22 && answer.dropFirst(13).first == 3, "not a HelloVerifyRequest")
                    #expect(answer.count < hello.count && answer.count == 36)
                }
                return [datagram]
            }
            #expect(error == nil)
        }
        #expect(held.withLock { $0 } != nil)
        #expect(host.events.all.allSatisfy { $0.reason.error == nil }, "\(host.events.all)")
    }

    /// Begins a handshake, and waits for the server's part of it. The client keeps its address as long as it lives.
    private func beginHandshake(_ hello: [UInt8], at host: TLSHost) throws -> RawDatagramClient {
        let client = try RawDatagramClient(port: host.port)
        client.send(hello)
        let cookie = Array(client.receiveAny().suffix(8))
        client.send(Self.hello(hello, with: cookie))
        #expect(client.receiveAny().dropFirst(13).first == 2)
        return client
    }

    @Test("The oldest handshake is ended when there are too many")
    func handshakeLimit() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, ["max-handshakes": "1", "tls-timeout": "240s"])
        let hello = try await recordedHello()
        let clients = try (0..<2).map { _ in try beginHandshake(hello, at: host) }
        let displaced = await host.events.first { $0.reason.error?.code == .tooManyRequests }
        #expect(displaced.reason.error?.reason.contains("more than 1 clients are in their handshake") == true)
        await host.stop()
        withExtendedLifetime(clients) {}
    }

    @Test("A handshake has a time limit")
    func handshakeTime() async throws {
        let host = try await TLSHost("dtls", try TestCertificates().server, ["tls-timeout": "300ms"])
        let client = try beginHandshake(try await recordedHello(), at: host)
        let late = await host.events.first { $0.reason.error?.code == .timedOut }
        #expect(late.reason.error?.phase == .secure)
        #expect(late.reason.error?.reason == "the DTLS handshake was not complete in time")
        await host.stop()
        withExtendedLifetime(client) {}
    }

    /// A ClientHello with a cookie, and with the next numbers of the record and of the message.
    private static func hello(_ hello: [UInt8], with cookie: [UInt8]) -> [UInt8] {
        var changed = hello
        let place = 13 + 12 + 34 + 1 + Int(hello[13 + 12 + 34])
        changed[place] = UInt8(cookie.count)
        changed.insert(contentsOf: cookie, at: place + 1)
        for offset in [12, 16, 24] {
            let length = Int(changed[offset - 1]) << 8 + Int(changed[offset]) + cookie.count
            changed[offset] = UInt8(truncatingIfNeeded: length)
            changed[offset - 1] = UInt8(truncatingIfNeeded: length >> 8)
        }
        changed[10] = 1
        changed[18] = 1
        return changed
    }

    @Test("Any bytes of an untrusted peer end nothing, and a forged or repeated datagram does not either")
    func garbage() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server)
        let relay = try DatagramRelay(to: host.port)
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority])
        async let accepted = host.listener.accept()
        let client = try await TransportRegistry.standard.connect(endpoint)
        let server = try #require(try await accepted)
        func exchange(_ text: String) async throws {
            #expect(await client.send(Payload(text: text)).isSuccess)
            #expect(try await server.receive()?.bytes == Array(text.utf8))
            #expect(await server.send(Payload(text: text)).isSuccess)
            #expect(try await client.receive()?.bytes == Array(text.utf8))
        }
        try await exchange("first")
        var random = SystemRandomNumberGenerator()
        let passed = relay.seen
        for side in [DatagramRelay.Side.client, .server] {
            // Everything again, in the other direction too, cut, flipped, and with another number.
            for (_, datagram) in passed {
                relay.inject(datagram, to: side)
                relay.inject(Array(datagram.dropLast()), to: side)
                relay.inject(Array(datagram.prefix(20)), to: side)
                var changed = datagram
                changed[changed.count - 1] ^= 1
                relay.inject(changed, to: side)
                changed = datagram
                changed[10] &+= 100
                relay.inject(changed, to: side)
                changed[3] = 7
                relay.inject(changed, to: side)
            }
            for type in 20...23 as ClosedRange<UInt8> {
                for epoch in 0...2 as ClosedRange<UInt8> {
                    let content = (0..<40).map { _ in UInt8.random(in: 0...255, using: &random) }
                    relay.inject([type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 99, 0, 40] + content, to: side)
                }
            }
            // Fatal alerts and close_notify without encryption.
            relay.inject([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40], to: side)
            relay.inject([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 1, 0], to: side)
            relay.inject([], to: side)
            relay.inject(Array("GET / HTTP/1.1\r\n\r\n".utf8), to: side)
        }
        try await exchange("second")
        #expect(try await client.ping() > .zero)
        await client.close()
        #expect(await server.closed().error == nil)
        relay.stop()
        await host.stop()
    }

    @Test("A client drops a burst of forged datagrams over several ticks, so that others on its loop have their turn")
    func forgedBurst() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server)
        let relay = try DatagramRelay(to: host.port)
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority])
        let loop = try EventLoop(name: "im-burst")
        let client = try await TransportRegistry.standard.connect(endpoint, on: loop)
        #expect(try await client.ping() > .zero)
        let driver = try #require(client as? CoreConnection).driver
        let forged: [UInt8] = [23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 99, 0, 40] + [UInt8](repeating: 7, count: 40)
        let count = 250
        // What has arrived, as a timer of each tick sees it.
        let seen: [UInt64] = await withCheckedContinuation { done in
            loop.execute {
                // The client lives on this loop, so it cannot read during the burst.
                for _ in 0..<count { relay.inject(forged, to: .client) }
                let start = driver.value.channel.bytesReceived
                let end = loop.now + 20_000_000_000
                var seen: [UInt64] = [0]
                func look() {
                    seen.append((driver.value.channel.bytesReceived - start) / UInt64(forged.count))
                    guard seen.last != UInt64(count), loop.now < end else { return done.resume(returning: seen) }
                    _ = loop.schedule(at: loop.now + 1, look)
                }
                look()
            }
        }
        #expect(seen.last == UInt64(count))
        let steps = zip(seen, seen.dropFirst()).map { $1 - $0 }
        #expect(steps.allSatisfy { $0 <= 100 }, "\(steps.filter { $0 > 0 })")
        await client.close()
        relay.stop()
        await host.stop()
    }

    @Test("A forged alert without encryption causes pings, and does not end an idle connection")
    func forgedAlert() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server)
        let relay = try DatagramRelay(to: host.port)
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority])
        async let accepted = host.listener.accept()
        let client = try await TransportRegistry.standard.connect(endpoint)
        let server = try #require(try await accepted)
        // The answer comes behind everything that the handshake and the session have sent.
        #expect(try await client.ping() > .zero)
        let before = relay.seen.count
        for level in [1, 2] as [UInt8] {
            relay.inject([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, level, 10], to: .client)
        }
        // A ping and its answer.
        func isAnswered(_ seen: DatagramRelay.Seen) -> Bool {
            [.client, .server].allSatisfy { side in seen.dropFirst(before).contains { $0.sender == side } }
        }
        await relay.wait(until: isAnswered)
        #expect(isAnswered(relay.seen))
        // The time limit of another handshake is the clock of this test. It is longer than that of the pings.
        let clock = try await TLSHost("dtls", certificates.server, ["tls-timeout": "4s"])
        let silent = try beginHandshake(try await recordedHello(), at: clock)
        _ = await clock.events.first { $0.reason.error?.code == .timedOut }
        #expect(await client.send(Payload(text: "still here")).isSuccess)
        #expect(try await server.receive()?.bytes == Array("still here".utf8))
        await client.close()
        relay.stop()
        await clock.stop()
        await host.stop()
        withExtendedLifetime(silent) {}
    }

    @Test("A client without a session is ended after the time limit, and both sides report it")
    func noSession() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server, ["tls-timeout": "5s"])
        // The handshake passes, and the messages of the client do not.
        let (error, _) = try await connect(host, ["ca": certificates.authority]) { _, sender, datagram in
            sender == .client && datagram.first == 23 ? [] : [datagram]
        }
        #expect(error?.code == .closedByPeer && error?.phase == .handshake, "\(String(describing: error))")
        #expect(error?.isRetryable == true)
        let seen = try await host.events.firstError()
        #expect(seen.code == .timedOut && seen.reason == "the client has opened no session after its DTLS handshake")
        await host.stop()
    }

    @Test("A client notices that the server has lost its state", arguments: [true, false])
    func restartedServer(isReliable: Bool) async throws {
        let certificates = try TestCertificates()
        let first = try await TLSHost("dtls", certificates.server)
        let second = try await TLSHost("dtls", certificates.server)
        let relay = try DatagramRelay(to: first.port)
        let mode: EndpointOptions = isReliable ? ["reliable": "ordered"] : [:]
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority] + mode)
        let client = try await TransportRegistry.standard.connect(endpoint)
        try relay.redirect(to: second.port)
        #expect(await client.send(Payload(text: "lost")).isSuccess)
        let error = await client.closed().error
        #expect(error?.code == .connectionLost && error?.isRetryable == true, "\(String(describing: error))")
        #expect(error?.reason == "the server does not know this encrypted connection any more")
        relay.stop()
        await first.stop()
        await second.stop()
    }

    @Test("A client that returns from the same address replaces its connection")
    func restartedClient() async throws {
        let certificates = try TestCertificates()
        let host = try await TLSHost("dtls", certificates.server)
        let relay = try DatagramRelay(to: host.port)
        let endpoint = tlsEndpoint("dtls", port: relay.port, ["ca": certificates.authority])
        async let accepted = host.listener.accept()
        let first = try await TransportRegistry.standard.connect(endpoint)
        let server = try #require(try await accepted)
        // For the server, the relay is one address.
        async let acceptedAgain = host.listener.accept()
        let second = try await TransportRegistry.standard.connect(endpoint)
        let error = await server.closed().error
        #expect(error?.code == .connectionLost && error?.reason.contains("another connection") == true)
        let other = try #require(try await acceptedAgain)
        #expect(await second.send(Payload(text: "hello")).isSuccess)
        #expect(try await other.receive()?.bytes == Array("hello".utf8))
        await second.close()
        await first.close()
        relay.stop()
        await host.stop()
    }
}

extension TestCertificates {
    /// The options of a client with a certificate. Each handshake is a full one.
    fileprivate var clientOptions: EndpointOptions {
        ["ca": authority, "certificate": client.certificate, "key": client.key, "resumption": "off"]
    }
    /// The options of a server that requires one, besides its own certificate.
    fileprivate var serverOptions: EndpointOptions { ["ca": authority, "client-certificates": "required"] }
}
