import CSocketIO
import TestSupport
import Testing

@testable import SocketIO

/// TLS streams over OpenSSL, with peers that behave badly.
@Suite("TLS streams of OpenSSL", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)))
struct OpenSSLStreamTests {
    private let loop = SteppedPoller.loop()

    /// Completes the handshake of a stream and a peer. Returns what the peer has sent after it.
    private func shake(_ user: TLSUser, _ peer: OpenSSLPeer) throws -> [UInt8] {
        var last: [UInt8] = []
        while !user.isOpen || !peer.isOpen {
            try #require(!user.isOver)
            last = peer.handshake(user.below.take())
            if user.isOpen { break }
            user.below.arrive(last)
            user.ready(.read)
        }
        try #require(peer.isOpen)
        return last
    }

    private func server(_ certificates: TestCertificates) throws -> (TLSUser, OpenSSLPeer) {
        let engine = try #require(try certificates.context(.server).makeEngine(host: nil, port: 0))
        let user = TLSUser(LinkedStream(), engine, .server, on: loop)
        let peer = try OpenSSLPeer(
            try certificates.context(.client) {
                $0.verifiesServer = false; $0.authorities = nil
            }
        )
        user.below.arrive(peer.handshake())
        user.ready(.read)
        _ = try shake(user, peer)
        _ = peer.read(user.below.take())
        return (user, peer)
    }

    @Test("A peer that updates its keys more than 32 times without data is refused", arguments: [false, true])
    func keyUpdates(requestsAnswers: Bool) throws {
        typealias Update = @convention(c) (UnsafeMutableRawPointer?, Int32) -> Int32
        let update = try #require(openSSLFunction("SSL_key_update", as: Update.self))
        let (user, peer) = try server(try TestCertificates())
        func updateKeys() {
            let bytes = peer.step {
                _ = update($1, requestsAnswers ? 1 : 0)
                return $0.pointee.SSL_do_handshake($1)
            }
            #expect(!bytes.isEmpty)
            user.below.arrive(bytes)
            user.ready(.read)
            _ = peer.read(user.below.take())
        }
        for _ in 0..<20 { updateKeys() }
        user.below.arrive(peer.write([1]))
        user.ready(.read)
        #expect(user.received == [1])
        for round in 1...33 {
            updateKeys()
            #expect(user.failure?.problem == (round <= 32 ? nil : .tooManyEmptyRecords), "\(round)")
        }
    }

    @Test("A write within a message of the peer waits for the rest of the message and does not block the loop")
    func writeWithinTicket() throws {
        let certificates = try TestCertificates()
        let context = try certificates.context(.server) { $0.clientCertificates = .required }
        // The ticket contains the client's certificate, so it does not fit into one record.
        context.limitRecords(to: 512)
        let peer = try OpenSSLPeer(context)
        // The context's callback works for its own engines only.
        typealias Verify = @convention(c) (Int32, UnsafeMutableRawPointer?) -> Int32
        typealias SetVerify = @convention(c) (UnsafeMutableRawPointer?, Int32, Verify) -> Void
        let setVerify = try #require(openSSLFunction("SSL_set_verify", as: SetVerify.self))
        setVerify(peer.connection, 1) { isValid, _ in isValid }
        let engine = try certificates.context(.client) {
            $0.certificate = TLSFile(certificates.client.certificate)
            $0.key = TLSFile(certificates.client.key)
        }.makeEngine(host: "localhost", port: 1)
        let user = TLSUser(LinkedStream(), try #require(engine), .client, on: loop)
        let ticket = try shake(user, peer)
        let first = 5 + Int(ticket[3]) << 8 + Int(ticket[4])
        try #require(ticket.count > first)
        user.below.arrive(ticket.prefix(first))
        user.ready(.read)
        user.send([1, 2, 3])
        #expect(user.below.take().isEmpty)
        #expect(user.failure == nil)
        user.below.arrive(ticket.dropFirst(first))
        user.ready(.read)
        while loop.nextStep == .min { loop.step() }
        #expect(peer.read(user.below.take()) == [1, 2, 3])
    }

    @Test("A server that ends the stream after its renegotiation was refused is named")
    func renegotiation() throws {
        typealias Clear = @convention(c) (UnsafeMutableRawPointer?, UInt64) -> UInt64
        typealias Renegotiate = @convention(c) (UnsafeMutableRawPointer?) -> Int32
        let clear = try #require(openSSLFunction("SSL_clear_options", as: Clear.self))
        let renegotiate = try #require(openSSLFunction("SSL_renegotiate", as: Renegotiate.self))
        let certificates = try TestCertificates()
        let context = try certificates.context(.server)
        context.limitToTLS12()
        let peer = try OpenSSLPeer(context)
        let engine = try certificates.context(.client).makeEngine(host: "localhost", port: 1)
        let user = TLSUser(LinkedStream(), try #require(engine), .client, on: loop)
        _ = try shake(user, peer)
        // SSL_OP_NO_RENEGOTIATION.
        _ = clear(peer.connection, 1 << 30)
        let request = peer.step {
            _ = renegotiate($1)
            return $0.pointee.SSL_do_handshake($1)
        }
        #expect(!request.isEmpty)
        user.below.arrive(request)
        user.ready(.read)
        #expect(user.failure == nil && !user.below.take().isEmpty)
        user.below.end()
        user.ready([.read, .hangUp])
        #expect(user.failure?.problem == .renegotiation)
        #expect(user.failure?.sentence.contains("the server requested a renegotiation") == true)
    }

    @Test("A request for a certificate on the open connection is named, and the same message in a handshake is not")
    func postHandshakeAuthentication() {
        // SSL_R_UNEXPECTED_MESSAGE.
        func failure(_ side: TLSSettings.Side, isComplete: Bool) -> TLSFailure {
            OpenSSLErrors.failure(244, TLSSettings(side), "unexpected message", .init(isComplete: isComplete))
        }
        let found = failure(.client, isComplete: true)
        #expect(found.problem == .postHandshakeAuthentication)
        #expect(found.sentence.contains("post-handshake authentication"))
        #expect(failure(.client, isComplete: false).problem == .brokenRecord)
        #expect(failure(.server, isComplete: true).problem == .brokenRecord)
    }

    @Test("An idle stream keeps no memory for bytes after the handshake and after each message")
    func memory() throws {
        let (user, peer) = try server(try TestCertificates())
        #expect(user.stream.bufferedBytes == 0 && user.stream.unacknowledgedBytes == 0)
        for size in [1, 1000, 16_384] {
            user.below.arrive(peer.write([UInt8](repeating: 1, count: size)))
            user.ready(.read)
            #expect(user.received.count == size)
            user.send(user.received)
            #expect(peer.read(user.below.take()).count == size)
            #expect(user.stream.bufferedBytes == 0 && user.stream.unacknowledgedBytes == 0)
            user.reset()
        }
    }

    @Test("The sessions of cut connections are continued", arguments: [false, true])
    func resumption(isTLS12: Bool) throws {
        let certificates = try TestCertificates()
        let server = try certificates.context(.server)
        if isTLS12 { server.limitToTLS12() }
        let client = try certificates.context(.client)
        for round in 0..<10 {
            let link = TLSLink(
                try #require(client.makeEngine(host: "localhost", port: 1)),
                try #require(server.makeEngine(host: nil, port: 0)),
                on: loop
            )
            link.client.send([1])
            link.server.send([2])
            #expect(link.run())
            #expect(link.client.received == [2] && link.server.received == [1])
            #expect(link.client.stream.encryption?.isResumed == (round > 0), "\(round)")
            #expect(link.server.stream.encryption?.isResumed == (round > 0), "\(round)")
            link.cut()
            #expect(link.client.failure?.problem == .truncated)
            link.close()
        }
    }

    @Test("A session ends a day after its full handshake, also if connections have continued it", arguments: [1, 3])
    func sessionAge(connections: Int) throws {
        let certificates = try TestCertificates()
        let (server, client) = (try certificates.context(.server), try certificates.context(.client))
        let before = MonotonicClock.now()
        var after = before
        for round in 0..<connections {
            let link = TLSLink(
                try #require(client.makeEngine(host: "localhost", port: 1)),
                try #require(server.makeEngine(host: nil, port: 0)),
                on: loop
            )
            if round == 0 { after = MonotonicClock.now() }
            #expect(link.run())
            #expect(link.client.stream.encryption?.isResumed == (round > 0))
            link.close()
        }
        let kept = try #require(client.sessions.take(of: .init(host: "localhost", port: 1)))
        #expect((before...after).contains(kept.began))
        client.sessions.add(kept.session, began: kept.began, of: .init(host: "localhost", port: 1))
        let tooLate = kept.began + OpenSSLSessions.longestAge + 1
        #expect(client.sessions.take(of: .init(host: "localhost", port: 1), now: tooLate) == nil)
    }

    @Test("A session is not continued after a broken record")
    func noResumptionAfterFailure() throws {
        let certificates = try TestCertificates()
        let (server, client) = (try certificates.context(.server), try certificates.context(.client))
        for _ in 0..<3 {
            let link = TLSLink(
                try #require(client.makeEngine(host: "localhost", port: 1)),
                try #require(server.makeEngine(host: nil, port: 0)),
                on: loop
            )
            link.server.send([2])
            #expect(link.run())
            #expect(link.client.stream.encryption?.isResumed == false)
            link.client.below.arrive(FakeEngine.record(.data, [UInt8](repeating: 3, count: 40)))
            link.client.ready(.read)
            #expect(link.client.failure?.problem == .brokenRecord)
            link.close()
        }
    }
}
