import SocketIO
import Testing

@testable import Transports

@Suite("UDP: counts of datagrams")
struct DatagramCountTests {
    @Test("The headers of UDP and IP are 28 bytes over IPv4, and 48 over IPv6")
    func headers() {
        var (sent, received) = (DatagramCount(), DatagramCount())
        sent.add(1000)
        sent.add(0)
        received.add(5)
        #expect(sent.bytes == 1000)
        #expect(
            SegmentCounts(sent: sent, received: received, isIPv6: false)
                == SegmentCounts(sent: 2, received: 1, headerBytes: 84)
        )
        #expect(SegmentCounts(sent: sent, received: received, isIPv6: true).headerBytes == 144)
    }

    @Test("A datagram is foreign until its first record is decrypted, and that counts once")
    func foreign() {
        var count = EncryptedDatagramCount()
        count.addOfHandshake(100)
        #expect(count.foreignBytes == 0)
        count.add(10)
        #expect(count.foreignBytes == 10)
        count.add(20)
        count.decrypted()
        count.decrypted()
        #expect(count.foreignBytes == 10)
        #expect(count.all.bytes == 130 && count.all.datagrams == 3)
    }
}
