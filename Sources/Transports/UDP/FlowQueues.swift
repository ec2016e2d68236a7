import Primitives
import TransportAPI

/// The datagrams of the sessions of a shared socket that wait to be processed. There is one queue for each session, and
/// one limit for all queues.
///
/// All sessions share one queue in the kernel. There the datagrams of a session that sends little wait behind those of
/// a session that sends much, and are lost if the queue is full. So the kernel's queue is emptied first, and datagrams
/// are processed from here. A session that had nothing waiting comes before the others, with one datagram. The others
/// follow in turn, one datagram each. They have every fourth place in any case. Only a session that sends more than is
/// processed loses datagrams.
///
/// This is flow queueing as in RFC 8290, section 4, counted in datagrams, because each datagram
/// costs about the same. There, a session that was served is queued behind the others even if it has nothing waiting, so
/// that the others are served. Here, the reserved places do that, and a session that sends one datagram now and then is
/// always served at once.
struct FlowQueues<Element: Sendable>: Sendable {
    /// The maximum number of bytes that wait in all queues.
    static var limit: Int { 1 << 20 }
    /// The memory of one datagram in addition to its bytes: its place in a queue that grows by doubling, and the header
    /// of an array.
    static var weight: Int { 2 * MemoryLayout<(element: Element, size: Int)>.stride + 48 }
    /// The number of datagrams of new sessions that are served in a row while others wait.
    private static var mostInARow: Int { 3 }
    /// A search for the longest queue takes time in proportion to the number of queues. So the next search waits until
    /// this fraction of that number of datagrams has arrived.
    private static var searchFraction: Int { 64 }

    private struct Flow {
        var waiting = Deque<(element: Element, size: Int)>()
        var bytes = 0

        mutating func append(_ element: Element, _ size: Int) {
            waiting.append((element, size))
            bytes += size
        }

        mutating func popFirst() -> (element: Element, size: Int)? {
            guard let taken = waiting.popFirst() else { return nil }
            bytes -= taken.size
            return taken
        }
    }

    private var flows: [UInt64: Flow] = [:]
    /// The sessions that had nothing waiting before.
    private var fresh = Deque<UInt64>()
    /// The sessions of which a datagram was served since they were empty.
    private var others = Deque<UInt64>()
    /// The number of new sessions that were served in a row before the others.
    private var inARow = 0
    /// The longest queue at the last search.
    private var longest: UInt64?
    /// The number of datagrams that must arrive before the next search.
    private var untilNextSearch = 0
    /// The number of waiting datagrams.
    private(set) var count = 0
    /// Their memory, in bytes.
    private(set) var bytes = 0

    var isEmpty: Bool { count == 0 }

    /// Whether a session waits that had nothing waiting before.
    var hasFresh: Bool { !fresh.isEmpty }

    // MARK: Coming

    /// Adds a datagram to its session's queue. Returns `false` if there is no room for a queue of that length. While
    /// half of the limit is free, any length is allowed. From then on, each queue may have an equal part of half of the
    /// limit. If nothing is free, a longer queue loses its first datagram.
    ///
    /// - Parameters:
    ///   - element: The datagram.
    ///   - size: Its size, in bytes.
    ///   - session: Its session.
    ///   - onLoss: Receives the datagram that another queue has lost.
    mutating func append(
        _ element: @autoclosure () -> Element,
        size: Int,
        of session: UInt64,
        onLoss: (Element) -> Void = { _ in }
    ) -> Bool {
        let size = size + Self.weight
        let held = flows[session]?.bytes
        untilNextSearch -= 1
        guard isAllowed(size, (held ?? 0) + size, onLoss) else { return false }
        if held == nil { fresh.append(session) }
        flows[session, default: Flow()].append(element(), size)
        bytes += size
        count += 1
        return true
    }

    /// Returns whether there is room for a datagram that makes its queue this long.
    private mutating func isAllowed(_ size: Int, _ length: Int, _ onLoss: (Element) -> Void) -> Bool {
        guard bytes + size > Self.limit / 2 else { return true }
        guard length == size || length <= Self.limit / 2 / max(1, flows.count) else { return false }
        while bytes + size > Self.limit {
            guard let session = longQueue(above: length), let lost = flows[session]?.popFirst() else { return false }
            bytes -= lost.size
            count -= 1
            onLoss(lost.element)
        }
        return true
    }

    /// Returns a queue that is longer than this: the one found at the last search if it still is, otherwise the longest
    /// of all.
    private mutating func longQueue(above length: Int) -> UInt64? {
        if let longest, let held = flows[longest]?.bytes, held > length { return longest }
        guard untilNextSearch <= 0 else { return nil }
        untilNextSearch = flows.count / Self.searchFraction
        var most = 0
        for (session, flow) in flows where flow.bytes > most { (longest, most) = (session, flow.bytes) }
        return most > length ? longest : nil
    }

    // MARK: Leaving

    /// Removes and returns the next datagram.
    mutating func popFirst() -> (session: UInt64, element: Element)? {
        while count > 0 {
            let isFresh = !fresh.isEmpty && (others.isEmpty || inARow < Self.mostInARow)
            let isPassing = isFresh && !others.isEmpty
            guard let session = isFresh ? fresh.first : others.first else { return nil }
            guard let element = serve(session, isFresh) else { continue }
            inARow = isPassing && count > 0 ? inARow + 1 : 0
            return (session, element)
        }
        return nil
    }

    /// Removes and returns the first datagram of the session that has waited longest among those that had nothing
    /// waiting before. Returns `nil` if there is none.
    mutating func popFresh() -> (session: UInt64, element: Element)? {
        while let session = fresh.first {
            if let element = serve(session, true) { return (session, element) }
        }
        return nil
    }

    /// Removes and returns the first datagram of the session at the head of its list. If the session has more
    /// datagrams, it is queued behind the others. Otherwise it counts as new the next time. Returns `nil` if the
    /// session has lost all its datagrams.
    private mutating func serve(_ session: UInt64, _ isFresh: Bool) -> Element? {
        leave(isFresh)
        guard let taken = flows[session]?.popFirst() else {
            flows[session] = nil
            return nil
        }
        bytes -= taken.size
        count -= 1
        if flows[session]?.bytes == 0 { flows[session] = nil } else { others.append(session) }
        if count == 0 { forget() }
        return taken.element
    }

    private mutating func leave(_ isFresh: Bool) {
        _ = isFresh ? fresh.popFirst() : others.popFirst()
    }

    /// Resets the state when no datagram waits.
    private mutating func forget() {
        flows.removeAll(keepingCapacity: true)
        (fresh, others) = (Deque(), Deque())
        (inARow, longest, untilNextSearch) = (0, nil, 0)
    }
}
