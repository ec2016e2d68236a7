import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("UDP: output")
struct DatagramOutputTests {
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
