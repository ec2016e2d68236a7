import SocketIO
import Testing
import TransportAPI

@testable import Transports

/// What stands in a row at a shared socket.
@Suite("UDP, taking turns")
struct UDPQueueTests {
    /// Takes out what is there, as the sessions it belongs to.
    private func order(_ queues: inout FlowQueues<Int>, atMost count: Int = .max) -> [UInt64] {
        var sessions: [UInt64] = []
        while sessions.count < count, let next = queues.popFirst() { sessions.append(next.session) }
        return sessions
    }

    @Test("Sessions have their turns, each in its own order, and who had nothing waiting comes before those that had")
    func turns() {
        var queues = FlowQueues<Int>()
        for number in 0..<20 {
            for session in [UInt64(1), 2] {
                let isTaken = queues.append(number, size: 100, of: session)
                #expect(isTaken)
            }
        }
        // The head starts of both, and then in turn.
        #expect(order(&queues, atMost: 12) == [1, 1, 1, 1, 2, 2, 2, 2, 1, 2, 1, 2])
        var isTaken = queues.append(0, size: 100, of: 3)
        #expect(isTaken)
        #expect(order(&queues, atMost: 2) == [3, 1])
        // It was served of late, and has no second head start until a round is over.
        for number in 0..<9 {
            isTaken = queues.append(number, size: 100, of: 3)
            #expect(isTaken)
        }
        #expect(order(&queues, atMost: 6) == [2, 3, 1, 2, 3, 1])
        var numbers: [UInt64: [Int]] = [:]
        while let (session, number) = queues.popFirst() { numbers[session, default: []].append(number) }
        #expect(numbers == [1: Array(9..<20), 2: Array(8..<20), 3: Array(2..<9)])
        #expect(queues.isEmpty && queues.bytes == 0)
        // Nobody was kept waiting, so everybody is new.
        for session in [UInt64(3), 1, 3, 1] { _ = queues.append(0, size: 100, of: session) }
        #expect(order(&queues) == [3, 3, 1, 1])
    }

    @Test("Who sends much loses what there is no room for, and who sends little loses nothing")
    func bound() {
        var queues = FlowQueues<Int>()
        var taken = (0..<5000).count { queues.append($0, size: 1000, of: 1) }
        let alone = FlowQueues<Int>.limit / 2 / (1000 + FlowQueues<Int>.weight)
        #expect(taken == alone)
        for session in 2..<20 as Range<UInt64> {
            taken = (0..<4).count { queues.append($0, size: 1000, of: session) }
            #expect(taken == 4)
        }
        for session in 100..<1000 as Range<UInt64> { for _ in 0..<9 { _ = queues.append(0, size: 1000, of: session) } }
        #expect(queues.bytes <= FlowQueues<Int>.limit)
        #expect(order(&queues).count { $0 == 1 } == alone)
        #expect(queues.bytes == 0)
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
