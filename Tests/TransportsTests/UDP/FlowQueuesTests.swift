import SocketIO
import Testing

@testable import Protocols
@testable import Transports

/// Tests the queues of the sessions that share a socket.
@Suite("UDP: queues of a shared socket")
struct FlowQueuesTests {
    /// Removes the queued elements and returns their sessions.
    private func order(_ queues: inout FlowQueues<Int>, atMost count: Int = .max) -> [UInt64] {
        var sessions: [UInt64] = []
        while sessions.count < count, let next = queues.popFirst() { sessions.append(next.session) }
        return sessions
    }

    @Test("Sessions are served round robin, each in its own order, and one whose queue was empty comes first")
    func roundRobin() {
        var queues = FlowQueues<Int>()
        for number in 0..<20 {
            for session in [UInt64(1), 2] {
                let isTaken = queues.append(number, size: 100, of: session)
                #expect(isTaken)
            }
        }
        #expect(order(&queues, atMost: 12) == [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2])
        var isTaken = queues.append(0, size: 100, of: 3)
        #expect(isTaken)
        #expect(order(&queues, atMost: 2) == [3, 1])
        // A session whose queue is empty again counts as new the next time.
        for number in 0..<3 {
            isTaken = queues.append(number, size: 100, of: 3)
            #expect(isTaken)
            #expect(order(&queues, atMost: 1) == [3])
        }
        // The others wait for at most three elements in a row. A session with more queued than served counts as one of
        // the others.
        for number in 0..<9 {
            isTaken = queues.append(number, size: 100, of: 3)
            #expect(isTaken)
        }
        #expect(order(&queues, atMost: 6) == [2, 3, 1, 2, 3, 1])
        var numbers: [UInt64: [Int]] = [:]
        while let (session, number) = queues.popFirst() { numbers[session, default: []].append(number) }
        #expect(numbers == [1: Array(9..<20), 2: Array(8..<20), 3: Array(2..<9)])
        #expect(queues.isEmpty && queues.bytes == 0)
        // No session was kept waiting, so all of them count as new.
        for session in [UInt64(3), 1, 3, 1] { _ = queues.append(0, size: 100, of: session) }
        #expect(order(&queues) == [3, 1, 3, 1])
    }

    @Test("Each session whose queue was empty is served once before the next read, and a flood has one place")
    func fresh() {
        var queues = FlowQueues<Int>()
        for number in 0..<50 { _ = queues.append(number, size: 100, of: 1) }
        for session in 2...4 as ClosedRange<UInt64> { _ = queues.append(0, size: 100, of: session) }
        #expect(queues.hasFresh)
        var sessions: [UInt64] = []
        while let next = queues.popFresh() { sessions.append(next.session) }
        #expect(sessions == [1, 2, 3, 4] && queues.count == 49 && !queues.hasFresh)
        // The next batch follows.
        for number in 50..<60 { _ = queues.append(number, size: 100, of: 1) }
        _ = queues.append(1, size: 100, of: 3)
        let next = queues.popFresh()
        #expect(next?.session == 3 && next?.element == 1)
        let isOver = queues.popFresh() == nil
        #expect(isOver)
        #expect(order(&queues) == Array(repeating: 1, count: 59))
    }

    @Test("Serving may take as long as reading plus one time budget, and each tick limits both together")
    func readBudget() {
        let timeBudget = EventLoop.timeBudget
        var readBudget = ReadBudget(0)
        // A batch took two fifths of a time budget.
        var now = timeBudget * 2 / 5
        #expect(readBudget.beginServing(now) == now + timeBudget * 7 / 5)
        readBudget.endServing(now + timeBudget * 7 / 5)
        now += timeBudget * 8 / 5
        // The next batch took half of that, so the same time is left.
        #expect(readBudget.beginServing(now) == now + timeBudget / 5)
        // Serving has exceeded its time and must wait until its allowance has recovered.
        readBudget.endServing(now + timeBudget)
        now += timeBudget * 6 / 5
        #expect(readBudget.beginServing(now) == now)
        readBudget.endServing(now)
        now += timeBudget
        #expect(readBudget.beginServing(now) > now)
        #expect(!readBudget.isOver(10 * timeBudget - 1) && readBudget.isOver(10 * timeBudget))
    }

    @Test("A session that sends seldom is served before the sessions that always have elements queued")
    func sparse() {
        var queues = FlowQueues<Int>()
        for number in 0..<50 {
            for session in 1...8 as ClosedRange<UInt64> { _ = queues.append(number, size: 100, of: session) }
        }
        // No session counts as new any more.
        _ = order(&queues, atMost: 60)
        for number in 0..<20 {
            _ = queues.append(number, size: 100, of: 9)
            let served = order(&queues, atMost: 2)
            #expect(served.first == 9 && served.last != 9)
        }
    }

    @Test("A session that sends much loses what exceeds the limit, and a session that sends little loses nothing")
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
        let left = order(&queues)
        // The longest queue has made room for many short ones.
        #expect(left.count { $0 == 1 } < 10 && Set(left).count > 400)
        #expect(queues.bytes == 0)
    }

    @Test("A burst among many sessions that send little is accepted whole while there is room")
    func shortBurst() {
        var queues = FlowQueues<Int>()
        for session in 1...100 as ClosedRange<UInt64> { _ = queues.append(0, size: 20, of: session) }
        let taken = (0..<50).count { queues.append($0, size: 1000, of: 200) }
        #expect(taken == 50)
    }

    @Test(
        "A new session gets room in full queues, and the longest queue loses its first element"
    )
    func newSession() {
        var queues = FlowQueues<Int>()
        for session in 1...4 as ClosedRange<UInt64> {
            var number = 0
            while queues.append(number, size: 100, of: session) { number += 1 }
        }
        #expect(queues.bytes > FlowQueues<Int>.limit - 200 - FlowQueues<Int>.weight)
        var lost: [Int] = []
        let isTaken = queues.append(7, size: 100, of: 5) { lost.append($0) }
        #expect(isTaken && !lost.isEmpty && queues.bytes <= FlowQueues<Int>.limit)
        var numbers: [UInt64: [Int]] = [:]
        while let (session, number) = queues.popFirst() { numbers[session, default: []].append(number) }
        #expect(numbers[5] == [7] && lost.last.map { numbers[1]?.first == $0 + 1 } == true)
    }

    @Test("Requests are returned in order with their senders, up to a limit, in several rounds")
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
