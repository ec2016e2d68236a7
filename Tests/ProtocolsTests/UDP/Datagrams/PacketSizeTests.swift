import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP packet size")
struct PacketSizeTests {
    @Test(
        "The loss of only long packets lowers the size, and a long packet that arrives raises it again"
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
            // The packet was too long, so its loss is no sign of congestion.
            let isForSize = size.lost(number, 1000, now)
            #expect(isForSize)
        }
        #expect(size.next(now) == 776 && size.next(now.advanced(by: PacketSize.pause)) == 1000)
    }

    @Test("The loss of long packets changes nothing if other long packets arrive")
    func plainLoss() {
        var size = PacketSize()
        for number in 0..<100 as Range<UInt64> {
            if number % 3 == 0 { size.arrived(number, 1200, .zero) } else { _ = size.lost(number, 1200, .zero) }
            size.arrived(number, 100, .zero)
        }
        #expect(size.limit == 1200)
    }
}
