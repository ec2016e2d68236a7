import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP handshake")
struct UDPHandshakeTests {
    static let here: [UInt8] = [10, 0, 0, 1, 1, 1]
    static let elsewhere: [UInt8] = [10, 0, 0, 2, 1, 1]

    @Test("Hello, retry, confirm and accept have the documented bytes and open both sides")
    func goldenBytes() throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        let hello = client.takeDatagrams()[0]
        let nonce = Array(hello[4..<12])
        #expect(hello == [0x49, 0x4d, 1, 1] + nonce + [UInt8](repeating: 0, count: 52))
        let retry = server.receive(hello)[0]
        let cookie = Array(retry[12..<20])
        #expect(retry == [0x49, 0x4d, 1, 2] + nonce + cookie)
        #expect(server.listener.sessionCount == 0)
        client.feed(datagram: retry)
        let confirm = client.takeDatagrams()[0]
        #expect(confirm == [0x49, 0x4d, 1, 3] + nonce + cookie + [UInt8](repeating: 0, count: 44))
        #expect(!client.isOpen && server.opened == 0)
        let accept = server.receive(confirm)[0]
        #expect(accept.prefix(12) == [0x49, 0x4d, 1, 4] + nonce && accept.count == 20)
        #expect(server.opened == 1 && server.listener.sessionCount == 1)
        client.feed(datagram: accept)
        #expect(client.isOpen && client.core.deadline == nil)
        #expect(server.sessions.keys.first == client.core.connectionID)
    }

    @Test("The hello is repeated after 200 ms, then at doubled intervals up to 2 s, until the client gives up")
    func retransmission() throws {
        var client = try startedClient()
        var times: [Int64] = []
        while client.failure == nil, let deadline = client.core.deadline {
            client.advance(by: client.context.now.duration(to: deadline))
            if !client.takeDatagrams().isEmpty { times.append(deadline.nanoseconds / 1_000_000) }
            if times.count == 1 { #expect(times == [200]) }
        }
        #expect(times == [200, 600, 1400, 3000, 5000, 7000, 9000])
        #expect(client.failure?.code == .timedOut && client.failure?.phase == .handshake)
        #expect(client.context.now == Instant.zero.advanced(by: .seconds(10)))
    }

    @Test("The handshake recovers from the loss of any single datagram", arguments: 0..<4)
    func oneLost(index: Int) throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        var count = 0
        for _ in 0..<20 where !client.isOpen {
            for datagram in client.takeDatagrams() {
                defer { count += 1 }
                guard count != index else { continue }
                for answer in server.receive(datagram) {
                    count += 1
                    if count != index { client.feed(datagram: answer) }
                }
            }
            if !client.isOpen { client.advance(by: .milliseconds(200)) }
            server.now = client.context.now
        }
        #expect(client.isOpen && server.opened == 1 && server.listener.sessionCount == 1)
    }

    @Test("Handshake datagrams that arrive twice make one session and open it once")
    func doubled() throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        while true {
            let datagrams = client.takeDatagrams()
            if datagrams.isEmpty { break }
            for datagram in datagrams + datagrams {
                for answer in server.receive(datagram) {
                    client.feed(datagram: answer)
                    client.feed(datagram: answer)
                }
            }
        }
        #expect(client.events.count == 1 && client.isOpen)
        #expect(server.opened == 1 && server.listener.sessionCount == 1)
    }

    @Test(
        "Each client gets one session over a network that loses, doubles and delays",
        arguments: 0..<40 as Range<UInt64>
    )
    func badConnection(seed: UInt64) throws {
        var client = try startedClient(seed: seed)
        var server = try SimulatedServer(seed: seed &+ 1000)
        var there = UnreliableConnection(loss: 0.3, doubling: 0.2, delay: 0.3, seed: seed &+ 2000)
        var back = UnreliableConnection(loss: 0.3, doubling: 0.2, delay: 0.3, seed: seed &+ 3000)
        for _ in 0..<200 where !client.isOpen {
            for datagram in there.carry(client.takeDatagrams()) {
                for answer in back.carry(server.receive(datagram)) { client.feed(datagram: answer) }
            }
            for answer in back.carry([]) { client.feed(datagram: answer) }
            client.advance(by: .milliseconds(50))
            server.now = client.context.now
        }
        #expect(client.isOpen && client.failure == nil)
        #expect(server.opened == 1 && server.listener.sessionCount == 1)
    }

    @Test("A forged cookie, or one for another address, makes no session and is answered with a new cookie")
    func forgedCookies() throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        client.feed(datagram: server.receive(client.takeDatagrams()[0], from: Self.here)[0])
        let confirm = client.takeDatagrams()[0]
        for index in 12..<20 {
            var forged = confirm
            forged[index] ^= 0x40
            #expect(server.receive(forged, from: Self.here).first?[3] == 2)
        }
        var otherNonce = confirm
        otherNonce[4] ^= 1
        #expect(server.receive(otherNonce, from: Self.here).first?[3] == 2)
        #expect(server.receive(confirm, from: Self.elsewhere).first?[3] == 2)
        #expect(server.listener.sessionCount == 0)
        #expect(server.receive(confirm, from: Self.here).first?[3] == 4)
    }

    @Test("A cookie is valid for two to four minutes")
    func expiredCookie() throws {
        for (made, shown, holds) in [
            (0, 239, true), (0, 240, false), (119, 239, true), (119, 240, false), (120, 359, true),
        ] {
            var client = try startedClient()
            var server = try SimulatedServer()
            server.now = Instant.zero.advanced(by: .seconds(made))
            client.feed(datagram: server.receive(client.takeDatagrams()[0])[0])
            server.now = Instant.zero.advanced(by: .seconds(shown))
            #expect(server.receive(client.takeDatagrams()[0]).first?[3] == (holds ? 4 : 2))
            #expect(server.listener.sessionCount == (holds ? 1 : 0))
        }
    }

    @Test("A client reaches a server that restarted during the handshake when it repeats its request")
    func restart() throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        client.feed(datagram: server.receive(client.takeDatagrams()[0])[0])
        var restarted = try SimulatedServer(seed: 5)
        client.feed(datagram: restarted.receive(client.takeDatagrams()[0])[0])
        #expect(client.takeDatagrams().isEmpty)
        client.advance(by: .milliseconds(200))
        exchange(&client, &restarted)
        #expect(client.isOpen == true)
    }

    @Test("A repeated confirm gets the same session while this is open, and none after its end")
    func replayedConfirm() throws {
        var client = try startedClient()
        var server = try SimulatedServer()
        client.feed(datagram: server.receive(client.takeDatagrams()[0])[0])
        let confirm = client.takeDatagrams()[0]
        let accept = server.receive(confirm)
        #expect(server.receive(confirm) == accept)
        client.feed(datagram: accept[0])
        client.core.close(.user, &client.context)
        exchange(&client, &server)
        #expect(server.listener.sessionCount == 0)
        #expect(server.receive(confirm).isEmpty && server.drops == [.ended])
        server.now = Instant.zero.advanced(by: .seconds(240))
        #expect(server.receive(confirm).first?[3] == 2)
        #expect(server.listener.sessionCount == 0 && server.opened == 1)
    }

    @Test("A full server refuses a client, and accepts the next one when there is room again")
    func full() throws {
        var server = try SimulatedServer(UDPConfiguration(maximumSessions: 2))
        var first = try startedClient(seed: 1)
        exchange(&first, &server)
        var second = try startedClient(seed: 2)
        exchange(&second, &server)
        var third = try startedClient(seed: 3)
        exchange(&third, &server)
        #expect(third.failure?.code == .serverUnavailable && server.listener.sessionCount == 2)
        first.core.close(.user, &first.context)
        exchange(&first, &server)
        var fourth = try startedClient(seed: 4)
        exchange(&fourth, &server)
        #expect(fourth.isOpen == true)
    }

    @Test("A client ignores answers with another nonce")
    func wrongNonce() throws {
        var client = try startedClient()
        let nonce = Array(client.takeDatagrams()[0][4..<12])
        let wrong = [nonce[0] ^ 1] + nonce.dropFirst()
        let number = [UInt8](repeating: 7, count: 8)
        client.feed(datagram: [0x49, 0x4d, 1, 2] + wrong + number)
        client.feed(datagram: [0x49, 0x4d, 1, 4] + wrong + number)
        client.feed(datagram: [0x49, 0x4d, 1, 10] + wrong)
        // An accept without a confirm before it.
        client.feed(datagram: [0x49, 0x4d, 1, 4] + nonce + number)
        #expect(client.events.isEmpty && client.failure == nil && client.takeDatagrams().isEmpty)
    }

    @Test("A server answers neither a short hello nor datagrams that only servers send")
    func dropped() throws {
        var server = try SimulatedServer()
        let hello = try {
            var client = try startedClient(); return client.takeDatagrams()[0]
        }()
        #expect(server.receive([]).isEmpty)
        #expect(server.receive(Array(hello.dropLast())).isEmpty && server.receive(hello + [0]).isEmpty)
        for index in 0..<4 {
            var other = hello
            other[index] ^= 0x80
            #expect(server.receive(other).isEmpty)
        }
        for (kind, size) in [(2, 20), (4, 20), (9, 12), (10, 12)] as [(UInt8, Int)] {
            #expect(server.receive([0x49, 0x4d, 1, kind] + [UInt8](repeating: 0, count: size - 4)).isEmpty)
        }
        #expect(Set(server.drops) == [.malformed])
    }

    @Test("A session that is closed before it is open sends nothing")
    func closedEarly() throws {
        var client = try startedClient()
        _ = client.takeDatagrams()
        #expect(failsWith(.wouldBlock) { _ = try client.send(Payload([1])) })
        #expect(failsWith(.wouldBlock) { try client.core.ping(&client.context) })
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.closeReason == .user && client.takeDatagrams().isEmpty && client.core.deadline == nil)
    }
}
