import SocketIO
import Testing
import TransportAPI

@testable import Transports

/// What stands in a row at a shared socket.
@Suite("UDP, taking turns")
struct UDPQueueTests {
    @Test("While a queue is emptied those who send little are served, and those who send much have their part")
    func fairness() {
        var backlog = Backlog()
        var (busy, quiet) = (Backlog.Part(), Backlog.Part())
        var others = [Backlog.Part](repeating: Backlog.Part(), count: 30)
        backlog.left(isFilling: false)
        // In its order while there is room, whoever it is.
        var served = (0..<500).count { _ in backlog.serves(&busy) }
        #expect(served == 500)
        backlog.left(isFilling: true)
        served = others.indices.count { backlog.serves(&others[$0]) }
        #expect(served == 30)
        served = (0..<500).count { _ in backlog.serves(&busy) }
        #expect(served > 0 && served < 10)
        served = (0..<1).count { _ in backlog.serves(&quiet) }
        #expect(served == 1)
        // A new run, in which nobody has had anything.
        backlog.emptied()
        #expect(!backlog.isOverdue)
        served = (0..<2).count { _ in backlog.serves(&busy) }
        #expect(served == 2)
    }

    @Test("A session that is alone loses nothing by the queue's being long")
    func alone() {
        var backlog = Backlog()
        var part = Backlog.Part()
        backlog.left(isFilling: true)
        let served = (0..<5000).count { _ in backlog.serves(&part) }
        #expect(served == 5000)
    }

    #if os(Linux)
    @Test("A socket tells that it is about to lose datagrams, until it is emptied")
    func filling() async throws {
        let loop = EventLoop.shared
        let states: [Bool] = try await running(on: loop) { () async throws(TransportError) in
            guard let host = SocketAddress(numeric: "127.0.0.1", port: 0),
                let receiver = try? DatagramSocket(boundTo: host, on: loop), let address = receiver.local,
                let sender = try? DatagramSocket(connectedTo: address, on: loop)
            else { return [] }
            var states = [receiver.isHalfFull]
            let bytes = [UInt8](repeating: 1, count: 1000)
            for _ in 0..<10_000 { _ = bytes.withUnsafeBytes { sender.send($0) } }
            states.append(receiver.isHalfFull)
            let batch = DatagramBatch(largest: 1200)
            while case .bytes = receiver.receive(into: batch) {}
            states.append(receiver.isHalfFull)
            sender.close()
            receiver.close()
            return states
        }
        #expect(states == [false, true, false])
    }
    #endif

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
