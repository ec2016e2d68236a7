import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP reliable mode")
struct ReliableTests {
    /// A message whose content and size depend on its number. Most are small, and some consist of several fragments.
    static func message(_ number: Int) -> [UInt8] {
        let size = number % 17 == 3 ? 1 + number * 131 % 9000 : 2 + number % 50
        return (0..<max(2, size)).map { $0 == 0 ? UInt8(number >> 8) : UInt8(truncatingIfNeeded: number + $0 - 1) }
    }

    @Test(
        "Each message arrives once, and in order if agreed, whatever the network loses, doubles and delays",
        arguments: [0, 0.05, 0.15, 0.3],
        [UDPReliability.ordered, .unordered]
    )
    func lossyConnection(loss: Double, reliability: UDPReliability) throws {
        for seed in 0..<6 as Range<UInt64> {
            var pair = try ReliablePair(.reliable(reliability), seed: seed)
            pair.spoil(loss: loss, seed: seed &* 7)
            let count = 150
            var (sent, answered) = (0, 0)
            try pair.run(atMost: 20_000) { pair in
                pair.server.messages.count >= count && pair.client.messages.count >= count
            } before: { pair in
                while sent < count, try pair.client.send(Payload(Self.message(sent))) == .written { sent += 1 }
                while answered < count, pair.serverSends(Self.message(answered)) == .written { answered += 1 }
            }
            // Waits for the last acknowledgement, and for messages that would arrive twice.
            try pair.run(atMost: 2000) { $0.client.core.reliable?.sender.isIdle == true }
            for _ in 0..<100 { pair.run() }
            let wanted = (0..<count).map(Self.message)
            let (there, back) = (pair.server.messages, pair.client.messages.map(\.bytes))
            #expect(there.count == count && back.count == count)
            #expect(Set(there) == Set(wanted) && Set(back) == Set(wanted))
            if reliability == .ordered { #expect(there == wanted && back == wanted) }
            #expect(pair.client.failure == nil && pair.server.failures.isEmpty)
            #expect(pair.client.core.reliable?.sender.isIdle == true)
        }
    }

    @Test("The largest message arrives over a lossy network, and a larger one is rejected without ending the session")
    func largest() throws {
        var pair = try ReliablePair(.ordered)
        pair.spoil(loss: 0.1, seed: 4)
        #expect(pair.client.core.capabilities.isReliable && pair.client.core.capabilities.isOrdered)
        #expect(pair.client.core.capabilities.maximumMessageSize == 1 << 20)
        let bytes = longBytes(1 << 20)
        #expect(failsWith(.messageTooLarge) { _ = try pair.client.send(Payload(bytes + [1])) })
        #expect(try pair.client.send(Payload(bytes)) == .written)
        try pair.run(atMost: 20_000) { !$0.server.messages.isEmpty }
        #expect(pair.server.messages == [bytes])
    }

    @Test("The smaller limit of the two sides applies to both")
    func agreedLimit() throws {
        let small = UDPConfiguration(reliability: .unordered, maximumReliableSize: 100)
        let pair = try ReliablePair(.reliable(.unordered), server: small)
        #expect(pair.client.core.capabilities.maximumMessageSize == 100)
        #expect(!pair.client.core.capabilities.isOrdered && pair.client.core.capabilities.isReliable)
        #expect(pair.session?.capabilities == pair.client.core.capabilities)
    }

    @Test("Unordered messages do not wait for a lost one, and ordered ones do")
    func headOfLine() throws {
        for (reliability, early) in [(UDPReliability.unordered, 2), (.ordered, 0)] {
            var pair = try ReliablePair(.reliable(reliability))
            for byte in 0..<3 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
            for datagram in pair.client.takeDatagrams().dropFirst() { _ = pair.server.receive(datagram) }
            #expect(pair.server.messages.count == early)
            try pair.run(atMost: 500) { $0.server.messages.count == 3 }
            #expect(pair.server.messages.count == 3)
        }
    }

    @Test("A receiver that is not read stops the sender within bounds, and loses nothing when it is read again")
    func backpressure() throws {
        var configuration = UDPConfiguration.reliable(.ordered, confirms: true)
        configuration.maximumReliableSize = 2000
        configuration.inboxMessages = 4
        configuration.reliableBuffer = 20_000
        var pair = try ReliablePair(configuration)
        let bytes = [UInt8](repeating: 7, count: 2000)
        var sent: UInt64 = 0
        for _ in 0..<2000 {
            while try pair.client.send(Payload(bytes), id: sent) == .written { sent += 1 }
            pair.run()
        }
        let window = pair.session?.reliable?.receiver.terms.window ?? 0
        #expect(pair.server.messages.count == 4 && sent < 200)
        #expect(pair.session?.reliable?.receiver.held ?? .max <= window)
        #expect(pair.client.events.count { if case .acknowledged = $0 { true } else { false } } > 1)
        #expect(pair.client.failure == nil)
        pair.spoil(loss: 0.2, seed: 3)
        for _ in 0..<20_000 where pair.server.messages.count < sent {
            _ = pair.server.run(pair.identifier) { core, context in core.confirmReceipt(&context) }
            pair.run()
        }
        #expect(pair.server.messages.count == Int(sent))
    }

    @Test("A close comes after all messages that were sent before it, even if they have to be repeated")
    func flushingClose() throws {
        var pair = try ReliablePair()
        pair.spoil(loss: 0.2, seed: 11)
        for number in 0..<100 { _ = try pair.client.send(Payload(Self.message(number))) }
        pair.client.core.close(CloseReason(.user, text: "done"), &pair.client.context)
        #expect(failsWith(.closedByUser) { _ = try pair.client.send(Payload([1])) })
        try pair.run(atMost: 2000) { $0.client.closeReason != nil }
        #expect(pair.server.messages == (0..<100).map(Self.message))
        #expect(pair.client.closeReason == CloseReason(.user, text: "done"))
    }

    @Test("A session ends five seconds after an unacknowledged close, and a minute after an unacknowledged message")
    func silence() throws {
        var closing = try ReliablePair()
        _ = try closing.client.send(Payload([1]))
        closing.client.core.close(.user, &closing.client.context)
        closing.client.advance(by: .seconds(5))
        #expect(closing.client.closeReason == .user)
        var silent = try ReliablePair()
        _ = try silent.client.send(Payload([1]))
        silent.client.advance(by: .seconds(59))
        #expect(silent.client.failure == nil && silent.client.takeDatagrams().count < 40)
        silent.client.advance(by: .seconds(1))
        #expect(silent.client.failure?.code == .acknowledgementTimeout)
    }

    @Test("A server without the reliable mode, new or old, refuses it with a clear error")
    func refused() throws {
        var client = try startedClient(.ordered)
        var server = try SimulatedServer(UDPConfiguration(acceptsReliable: false))
        exchange(&client, &server)
        #expect(client.failure?.code == .unsupported && server.listener.sessionCount == 0)
        var plain = try startedClient()
        exchange(&plain, &server)
        #expect(plain.isOpen && !plain.core.capabilities.isReliable)
        // A server that does not implement the mode answers with a plain accept.
        var other = try startedClient(.ordered)
        let nonce = Array(other.takeDatagrams()[0][4..<12])
        let number = [UInt8](repeating: 7, count: 8)
        other.feed(datagram: [0x49, 0x4d, 1, 2] + nonce + number)
        _ = other.takeDatagrams()
        other.feed(datagram: [0x49, 0x4d, 1, 4] + nonce + number)
        #expect(other.failure?.code == .unsupported && !other.isOpen)
        let bye = other.takeDatagrams()[0]
        #expect(Array(bye.prefix(12)) == [0x49, 0x4d, 1, 8] + number)
    }

    @Test("A server accepts reliable clients and others at the same time")
    func mixed() throws {
        var server = try SimulatedServer(.reliable(.off))
        var one = try startedClient(.ordered, seed: 1)
        var other = try startedClient(seed: 2)
        exchange(&one, &server)
        exchange(&other, &server)
        _ = try one.send(Payload([1]))
        _ = try other.send(Payload([2]))
        exchange(&one, &server)
        exchange(&other, &server)
        #expect(server.messages == [[1], [2]])
    }
}
