import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP reliable mode: packets")
struct ReliablePacketTests {
    @Test("Confirm, welcome, packets and acknowledgements have the documented bytes")
    func goldenBytes() throws {
        var client = try startedClient(.reliable(.unordered))
        var server = try SimulatedServer(UDPConfiguration(maximumReliableSize: 1000))
        let hello = client.takeDatagrams()[0]
        let nonce = Array(hello[4..<12])
        client.feed(datagram: server.receive(hello)[0])
        let confirm = client.takeDatagrams()[0]
        #expect(Array(confirm[20...]) == [2, 0, 0x10, 0, 0, 0, 0x20, 2, 0] + [UInt8](repeating: 0, count: 35))
        let welcome = server.receive(confirm)[0]
        let identifier = withUnsafeBytes(of: server.sessions.keys.first?.bigEndian ?? 0, Array.init)
        #expect(welcome == [0x49, 0x4d, 1, 11] + nonce + identifier + [2, 0, 0, 3, 0xe8, 0, 4, 0, 0])
        client.feed(datagram: welcome)
        #expect(try client.send(Payload(text: "hi")) == .written)
        let header = [0x49, 0x4d, 1, 12] + identifier
        let packet = client.takeDatagrams()[0]
        #expect(packet == header + [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x68, 0x69])
        #expect(server.receive(packet).isEmpty)
        server.now = Instant.zero.advanced(by: .milliseconds(25))
        let answer = server.run(client.core.connectionID) { _, _ in }
        let acknowledgement: [UInt8] = [
            3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x61, 0xa8, 0, 0, 0, 0, 0,
        ]
        #expect(answer == [header + [0, 0, 0, 0, 0, 0, 0, 0] + acknowledgement])
        client.feed(datagram: answer[0])
        #expect(client.core.reliable?.sender.isIdle == true && client.core.deadline == nil)
    }

    @Test("A large message is cut into fragments that fit, with the documented bytes")
    func fragments() throws {
        var pair = try ReliablePair()
        _ = try pair.client.send(Payload([UInt8](repeating: 9, count: 2500)))
        let packets = pair.client.takeDatagrams()
        #expect(packets.map(\.count) == [1200, 1200, 217])
        #expect(Array(packets[2][20..<39]) == [2] + [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0xc4, 0, 0, 9, 0x12, 0, 0xb2])
    }

    @Test("Every second packet and one after a gap are acknowledged at once, and a single one within 25 ms")
    func acknowledgementDelay() throws {
        var pair = try ReliablePair()
        for byte in 0..<6 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
        let packets = pair.client.takeDatagrams()
        #expect(pair.server.receive(packets[0]).isEmpty)
        #expect(pair.server.receive(packets[1]).count == 1)
        #expect(pair.server.receive(packets[2]).isEmpty)
        pair.server.now = Instant.zero.advanced(by: .milliseconds(24))
        #expect(pair.server.run(pair.identifier) { _, _ in }.isEmpty)
        pair.server.now = Instant.zero.advanced(by: .milliseconds(25))
        #expect(pair.server.run(pair.identifier) { _, _ in }.count == 1)
        let behindGap = pair.server.receive(packets[4])
        #expect(behindGap.count == 1)
        // One run of the last packet, then one of the three before the gap.
        #expect(Array(behindGap[0][41...]) == [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2])
    }

    @Test("A lost packet is sent again after three later ones are acknowledged, or else after a timeout")
    func fastRetransmission() throws {
        var pair = try ReliablePair()
        for byte in 0..<4 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
        let packets = pair.client.takeDatagrams()
        var answers: [[UInt8]] = []
        for packet in packets[1...2] { answers += pair.server.receive(packet) }
        for answer in answers { pair.client.feed(datagram: answer) }
        #expect(pair.client.takeDatagrams().isEmpty)
        for answer in pair.server.receive(packets[3]) { pair.client.feed(datagram: answer) }
        let again = pair.client.takeDatagrams()
        // The same message under the next packet number.
        #expect(again.count == 1 && again[0][19] == 4 && Array(again[0][20...]) == Array(packets[0][20...]))
        _ = pair.server.receive(again[0])
        #expect(pair.server.messages == [[0], [1], [2], [3]])
    }

    @Test("Unacknowledged packets are sent again after a timeout, which doubles each time up to 10 s")
    func backoff() throws {
        var pair = try ReliablePair()
        _ = try pair.client.send(Payload([1]))
        _ = pair.client.takeDatagrams()
        var times: [Int64] = []
        while times.count < 5, let deadline = pair.client.core.deadline {
            pair.client.advance(by: pair.client.context.now.duration(to: deadline))
            if !pair.client.takeDatagrams().isEmpty { times.append(deadline.nanoseconds / 1_000_000) }
        }
        #expect(times == [1025, 3050, 7075, 15_100, 25_125])
    }

    @Test("A wide window is filled in bursts of ten packets, and other connections can run between them")
    func bursts() throws {
        var pair = try ReliablePair()
        _ = try pair.client.send(Payload([UInt8](repeating: 1, count: 500_000)))
        // The window grows as packets arrive, and no packet is in flight at the end.
        try pair.run(atMost: 500) { !$0.server.messages.isEmpty && $0.client.core.reliable?.sender.isIdle == true }
        let window = pair.client.core.reliable?.sender.window.size ?? 0
        #expect(window > 40 * 1200 && pair.server.messages.count == 1)
        _ = pair.client.takeDatagrams()
        _ = try pair.client.send(Payload([UInt8](repeating: 2, count: 35_000)))
        var bursts = [pair.client.takeDatagrams().count]
        let now = pair.client.context.now
        while bursts.count < 10, let deadline = pair.client.core.deadline, deadline <= now {
            try pair.client.core.deadlineReached(&pair.client.context)
            bursts.append(pair.client.takeDatagrams().count)
        }
        #expect(bursts == [10, 10, 10, 1])
    }

    @Test("Repeated bytes are counted separately, because they show that this side's datagrams are lost")
    func repeatedBytes() throws {
        var pair = try ReliablePair()
        let sent = pair.server.run(pair.identifier) { core, context in _ = try? core.send(Payload([1]), id: 0, &context)
        }
        for datagram in sent { pair.client.feed(datagram: datagram) }
        #expect(pair.client.context.counters.repeatedBytes == 0)
        // The client's answers are lost.
        var repeated = 0
        for second in [2, 5] {
            pair.server.now = Instant.zero.advanced(by: .seconds(second))
            for datagram in pair.server.run(pair.identifier, { _, _ in }) {
                repeated += datagram.count
                pair.client.feed(datagram: datagram)
            }
        }
        #expect(repeated > 0 && pair.client.context.counters.repeatedBytes == UInt64(repeated))
        let ping = [0x49, 0x4d, 1, 6] + pair.wireIdentifier + [UInt8](repeating: 4, count: 8)
        for _ in 0..<3 { pair.client.feed(datagram: ping) }
        #expect(pair.client.context.counters.repeatedBytes == UInt64(repeated + 40) && pair.client.messages.count == 1)
    }

    @Test("A lost ping is repeated until it is answered")
    func lostPing() throws {
        var pair = try ReliablePair()
        try pair.client.core.ping(&pair.client.context)
        let ping = pair.client.takeDatagrams()
        pair.client.advance(by: .seconds(1))
        #expect(pair.client.takeDatagrams().first == ping[0])
        pair.client.advance(by: .seconds(2))
        let again = pair.client.takeDatagrams()
        #expect(again.first == ping[0])
        for answer in pair.server.receive(again[0]) { pair.client.feed(datagram: answer) }
        #expect(pair.client.pongs == [1])
        pair.client.advance(by: .seconds(10))
        #expect(!pair.client.takeDatagrams().contains(ping[0]))
    }

    @Test("A window starts at ten full packets, grows with acknowledgements, and halves at a loss")
    func congestionWindow() throws {
        var window = CongestionWindow()
        var count = 0
        while window.hasRoom {
            window.sent(1200)
            count += 1
        }
        #expect(count == 10)
        let now = Instant.zero.advanced(by: .seconds(1))
        for _ in 0..<10 { window.acknowledged(1200, sentAt: .zero, flight: 12_000) }
        #expect(window.size == 24_000 && window.bytesInFlight == 0)
        for _ in 0..<20 { window.sent(1200) }
        for _ in 0..<2 { _ = window.lost(1200, sentAt: .zero, now: now) }
        #expect(window.size == 12_000)
        let later = now.advanced(by: .milliseconds(1))
        for _ in 0..<10 { window.acknowledged(1200, sentAt: later, flight: 12_000) }
        #expect(window.size > 13_000 && window.size < 13_300)
        window.collapse(later)
        #expect(window.size == CongestionWindow.minimum)
        // A loss from before the silence does not lower the slow start threshold.
        _ = window.lost(1200, sentAt: later, now: later)
        let again = later.advanced(by: .milliseconds(1))
        for _ in 0..<3 { window.acknowledged(1200, sentAt: again, flight: 12_000) }
        #expect(window.size == 6000)
    }

    @Test("A window that was halved for late packets gets its size back when they arrive")
    func spuriousLoss() {
        var window = CongestionWindow()
        for _ in 0..<10 { window.sent(1200) }
        let now = Instant.zero.advanced(by: .seconds(1))
        for _ in 0..<2 {
            let answer = window.lost(1200, sentAt: .zero, now: now)
            #expect(answer == now)
        }
        #expect(window.size == 6000)
        window.wasNotLost(now)
        #expect(window.size == 6000)
        window.wasNotLost(now)
        #expect(window.size == 12_000 && window.bytesInFlight == 8 * 1200)
    }

    @Test("A late packet takes back only the loss that was assumed for it, not a later one")
    func lateBeyondRecovery() {
        var window = CongestionWindow()
        for _ in 0..<10 { window.sent(1200) }
        let times = (1...3).map { Instant.zero.advanced(by: .seconds($0)) }
        let first = window.lost(1200, sentAt: .zero, now: times[0])
        let second = window.lost(1200, sentAt: times[1], now: times[2])
        #expect(first == times[0] && second == times[2] && window.size == 3000)
        window.wasNotLost(first)
        #expect(window.size == 3000)
        window.wasNotLost(second)
        #expect(window.size == 6000)
    }

    @Test("A window that has grown starts again at its initial size after a silence")
    func restart() {
        var window = CongestionWindow()
        for _ in 0..<100 { window.acknowledged(1200, sentAt: .zero, flight: .max / 2) }
        window.restart()
        #expect(window.size == CongestionWindow.initial)
    }

    @Test("A window that is mostly unused does not grow")
    func idleWindow() {
        var window = CongestionWindow()
        for _ in 0..<100 {
            window.sent(100)
            window.acknowledged(100, sentAt: .zero, flight: 100)
        }
        #expect(window.size == CongestionWindow.initial)
    }
}
