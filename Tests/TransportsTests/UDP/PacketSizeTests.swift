import SocketIO
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("UDP, the size of packets")
struct PacketSizeTests {
    @Test(
        "Three long packets that vanish while a short one arrives bring the size down; one that arrives brings it up again"
    )
    func fallAndRise() {
        var size = PacketSize()
        let now = Instant.zero
        let losses = (0..<3 as Range<UInt64>).map { size.lost($0, 1200, now) }
        #expect(losses == [false, false, false] && size.limit == 1200)
        size.arrived(3, 100, now)
        _ = size.lost(4, 1200, now)
        #expect(size.limit == 548 && size.next(now) == 776)
        size.sent(5, 700)
        #expect(size.next(now) == 548)
        size.arrived(5, 700, now)
        #expect(size.limit == 776 && size.next(now) == 1000)
        for number in 6..<9 as Range<UInt64> {
            size.sent(number, 1000)
            // It was too long, which says nothing about congestion.
            let isForSize = size.lost(number, 1000, now)
            #expect(isForSize)
        }
        #expect(size.next(now) == 776 && size.next(now.advanced(by: PacketSize.pause)) == 1000)
    }

    @Test("Long packets that are lost among others that arrive change nothing")
    func plainLoss() {
        var size = PacketSize()
        for number in 0..<100 as Range<UInt64> {
            if number % 3 == 0 { size.arrived(number, 1200, .zero) } else { _ = size.lost(number, 1200, .zero) }
            size.arrived(number, 100, .zero)
        }
        #expect(size.limit == 1200)
    }

    @Test("A datagram that the system refuses as too long is dropped, and the next ones are shorter")
    func refused() throws {
        var pair = try ReliablePair()
        #expect(try pair.client.send(Payload([UInt8](repeating: 1, count: 5000))) == .written)
        var sizes: [Int] = []
        func flush(_ pair: inout ReliablePair) {
            var carried: [[UInt8]] = []
            let result = DatagramOutput.flush(&pair.client.context) { datagram in
                sizes.append(datagram.count)
                guard datagram.count <= 900 else { return .failed(SystemError("send", EMSGSIZE)) }
                carried.append(Array(datagram))
                return .bytes(datagram.count)
            }
            #expect(result == .bytes(0))
            for datagram in carried {
                for answer in pair.server.receive(datagram) { pair.client.feed(datagram: answer) }
            }
        }
        for _ in 0..<100 where pair.server.messages.isEmpty {
            flush(&pair)
            pair.client.advance(by: .milliseconds(100))
            pair.server.now = pair.client.context.now
        }
        #expect(pair.server.messages.map(\.count) == [5000])
        #expect(
            sizes.first == 1200 && sizes.filter { $0 > 1000 }.count <= 6 && sizes.suffix(3).allSatisfy { $0 <= 776 }
        )
        #expect(pair.client.core.reliable?.sender.size.limit == 776)
    }
}
