import Primitives
import Testing

@testable import SocketIO

/// Both pollers must behave alike.
@Suite("Pollers")
struct PollerTests {
    /// Two connected sockets.
    struct Pair: ~Copyable {
        let left: Descriptor
        let right: Descriptor

        init() throws {
            var ends: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Platform.streamSocket, 0, &ends) == 0)
            for end in ends { try Platform.makeNonBlocking(end) }
            left = Descriptor(ends[0])
            right = Descriptor(ends[1])
        }

        func write(_ count: Int) {
            let bytes = [UInt8](repeating: 7, count: count)
            _ = send(right.raw, bytes, count, 0)
        }

        func read() -> Int {
            var bytes = [UInt8](repeating: 0, count: 4096)
            return recv(left.raw, &bytes, bytes.count, 0)
        }
    }

    private func wait(_ poller: any Poller, _ deadline: Int64? = .min) -> [PollEvent] {
        poller.prepare(until: deadline)
        poller.block()
        return collect(poller)
    }

    private func collect(_ poller: any Poller) -> [PollEvent] {
        var queue = Deque<PollEvent>()
        var events: [PollEvent] = []
        _ = poller.collect(into: &queue)
        while let event = queue.popFirst() { events.append(event) }
        return events
    }

    @Test("A new socket is reported as writable once and not again", arguments: PollerKind.allCases)
    func writableOnce(kind: PollerKind) throws {
        let poller = try kind.make()
        let pair = try Pair()
        try poller.add(pair.left.raw, token: 42, interest: [.read, .write])
        let first = wait(poller)
        #expect(first.count == 1 && first.first?.token == 42 && first.first?.readiness == .write)
        #expect(wait(poller).isEmpty)
    }

    @Test("Received bytes are reported once for each edge", arguments: PollerKind.allCases)
    func readEdges(kind: PollerKind) throws {
        let poller = try kind.make()
        let pair = try Pair()
        try poller.add(pair.left.raw, token: 1, interest: [.read, .write])
        _ = wait(poller)
        pair.write(10)
        #expect(wait(poller).first?.readiness.contains(.read) == true)
        #expect(wait(poller).isEmpty)
        #expect(pair.read() == 10)
        #expect(pair.read() < 0)
        poller.rearm(pair.left.raw, token: 1, .read)
        #expect(wait(poller).isEmpty)
        pair.write(5)
        #expect(wait(poller).first?.readiness.contains(.read) == true)
    }

    @Test("A poller reports once that the peer has closed", arguments: PollerKind.allCases)
    func hangUp(kind: PollerKind) throws {
        let poller = try kind.make()
        var ends: [Int32] = [0, 0]
        try #require(socketpair(AF_UNIX, Platform.streamSocket, 0, &ends) == 0)
        let left = Descriptor(ends[0])
        try poller.add(left.raw, token: 1, interest: [.read, .write])
        _ = wait(poller)
        close(ends[1])
        #expect(wait(poller).first?.readiness.contains([.read, .hangUp]) == true)
        #expect(wait(poller).isEmpty)
    }

    @Test("A removed descriptor is no longer reported", arguments: PollerKind.allCases)
    func remove(kind: PollerKind) throws {
        let poller = try kind.make()
        let pair = try Pair()
        let other = try Pair()
        try poller.add(pair.left.raw, token: 1, interest: [.read, .write])
        try poller.add(other.left.raw, token: 2, interest: [.read, .write])
        poller.remove(pair.left.raw, token: 1)
        pair.write(1)
        other.write(1)
        #expect(wait(poller).map(\.token) == [2])
    }

    @Test("A poller rejects a descriptor that it already watches", arguments: PollerKind.allCases)
    func twice(kind: PollerKind) throws {
        let poller = try kind.make()
        let pair = try Pair()
        try poller.add(pair.left.raw, token: 1, interest: [.read, .write])
        #expect(throws: SystemError.self) { try poller.add(pair.left.raw, token: 2, interest: [.read, .write]) }
    }

    #if os(Linux)
    @Test("A descriptor that waits for room to write is counted once, however often it is rearmed")
    func waitingForRoom() throws {
        let poller = try EpollPoller()
        let pair = try Pair()
        try poller.add(pair.left.raw, token: 7, interest: .read)
        for _ in 0..<3 { poller.rearm(pair.left.raw, token: 7, .write) }
        #expect(poller.writing == 1)
        #expect(wait(poller).first?.readiness == .write)
        #expect(poller.writing == 0)
        #expect(wait(poller).isEmpty)
    }
    #endif

    @Test("Another thread can wake a poller, also before the poller blocks", arguments: PollerKind.allCases)
    func wake(kind: PollerKind) throws {
        let poller = try kind.make()
        poller.wake()
        poller.wake()
        #expect(wait(poller, nil).isEmpty)
        #expect(wait(poller).isEmpty)
    }

    @Test("A poller reports descriptors that are added or rearmed while it waits", arguments: PollerKind.allCases)
    func changedWhileWaiting(kind: PollerKind) throws {
        let poller = try kind.make()
        let early = try Pair()
        let late = try Pair()
        try poller.add(early.left.raw, token: 1, interest: [.read, .write])
        _ = wait(poller)
        early.write(1)
        _ = wait(poller)
        poller.prepare(until: nil)
        #expect(early.read() == 1)
        #expect(early.read() < 0)
        poller.rearm(early.left.raw, token: 1, .read)
        early.write(1)
        try poller.add(late.left.raw, token: 2, interest: [.read, .write])
        poller.block()
        let events = collect(poller) + wait(poller)
        #expect(Set(events.map(\.token)) == [1, 2])
    }

    @Test(
        "An event for a removed watcher is not reported to its successor on the same descriptor",
        arguments: PollerKind.allCases
    )
    func replacedWhileWaiting(kind: PollerKind) throws {
        let poller = try kind.make()
        let pair = try Pair()
        try poller.add(pair.left.raw, token: 1, interest: .read)
        pair.write(1)
        poller.prepare(until: nil)
        poller.block()
        poller.remove(pair.left.raw, token: 1)
        try poller.add(pair.left.raw, token: 2, interest: .read)
        let events = collect(poller)
        #expect(!events.contains { $0.token == 2 })
        #expect(wait(poller).map(\.token) == [2])
    }

    @Test("A poller wakes at a deadline that is lowered while it waits", arguments: PollerKind.allCases)
    func loweredDeadline(kind: PollerKind) throws {
        let poller = try kind.make()
        let start = MonotonicClock.now()
        for deadline in [nil, start + 600 * second] {
            poller.prepare(until: deadline)
            poller.lowerDeadline(to: MonotonicClock.now() + 1_000_000)
            poller.block()
            #expect(collect(poller).isEmpty)
        }
        #expect(MonotonicClock.now() < start + 600 * second)
    }

    @Test("A poller wakes at its deadline, and at an earlier one that is set later", arguments: PollerKind.allCases)
    func deadline(kind: PollerKind) throws {
        let poller = try kind.make()
        let start = MonotonicClock.now()
        #expect(wait(poller, start + 5_000_000).isEmpty)
        while MonotonicClock.now() < start + 5_000_000 { _ = wait(poller, start + 5_000_000) }
        let far = MonotonicClock.now() + 600_000_000_000
        poller.wake()
        _ = wait(poller, far)
        let near = MonotonicClock.now() + 1_000_000
        while MonotonicClock.now() < near { _ = wait(poller, near) }
        #expect(MonotonicClock.now() < far)
    }
}
