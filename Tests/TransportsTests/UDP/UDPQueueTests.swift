import SocketIO
import Testing
import TransportAPI

@testable import Transports

/// What stands in a row at a shared socket.
@Suite("UDP, taking turns")
struct UDPQueueTests {
    private static let patience = Backlog.patience

    @Test("While a queue is emptied those who send little are served, and those who send much have their part")
    func fairness() {
        var backlog = Backlog()
        var (busy, quiet) = (Backlog.Part(), Backlog.Part())
        var others = [Backlog.Part](repeating: Backlog.Part(), count: 30)
        backlog.left(now: 1000)
        #expect(!backlog.isOverdue(now: 1000 + Self.patience) && backlog.isOverdue(now: 1001 + Self.patience))
        // In its order for a while, whoever it is.
        var served = (0..<500).count { _ in backlog.serves(&busy, isOverdue: false) }
        #expect(served == 500)
        served = others.indices.count { backlog.serves(&others[$0], isOverdue: true) }
        #expect(served == 30)
        served = (0..<500).count { _ in backlog.serves(&busy, isOverdue: true) }
        #expect(served > 0 && served < 10)
        served = (0..<2).count { _ in backlog.serves(&quiet, isOverdue: true) }
        #expect(served == 2)
        // A new run, in which nobody has had anything.
        backlog.emptied()
        #expect(!backlog.isOverdue(now: 10 * Self.patience))
        served = (0..<2).count { _ in backlog.serves(&busy, isOverdue: true) }
        #expect(served == 2)
    }

    @Test("A session that is alone loses nothing by the queue's being long")
    func alone() {
        var backlog = Backlog()
        var part = Backlog.Part()
        backlog.left(now: 1)
        let served = (0..<5000).count { _ in backlog.serves(&part, isOverdue: true) }
        #expect(served == 5000)
    }

    @Test("Requests come out in their order with their senders, up to a bound, round and round")
    func requests() throws {
        var requests = WaitingRequests()
        var (next, taken) = (0, 0)
        let host = try #require(SocketAddress(numeric: "127.0.0.1", port: 9))
        #expect(requests.count == 0)
        for round in 0..<7 {
            while true {
                var datagram = ByteBuffer()
                Datagram.append(.hello, UInt64(next), to: &datagram)
                guard requests.append(datagram, from: host) else { break }
                next += 1
            }
            #expect(requests.count == WaitingRequests.limit)
            for _ in 0..<100 + 61 * round {
                var datagram = ByteBuffer()
                let sender = requests.takeFirst(into: &datagram)
                let (number, size) = (Datagram.identifier(of: datagram), datagram.count)
                #expect(sender == host && number == UInt64(taken) && size == 64)
                taken += 1
            }
        }
        var other = ByteBuffer()
        other.append(contentsOf: [UInt8](repeating: 1, count: 65))
        let isTaken = requests.append(other, from: host)
        #expect(!isTaken)
        var rest = ByteBuffer()
        while requests.takeFirst(into: &rest) != nil {
            taken += 1
            rest.removeAll()
        }
        #expect(taken == next && requests.count == 0)
    }
}
