import Primitives
import TransportAPI

/// What has come for the sessions of a shared socket and waits to be served: a line for each session, bounded together.
///
/// All sessions share one queue in the kernel, where whoever sends little waits behind whoever sends much, and loses
/// what finds it full. So that queue is emptied first and served from here: a session that had nothing waiting comes
/// before the others, with one datagram; the others take turns, one datagram each, and have every fourth place for
/// certain. Who sends more than is served loses it, and nobody else does. (Flow queueing as of RFC 8290, section 4.1,
/// counted in datagrams, since that is what they cost. There a session that was served goes behind the others even if
/// nothing waits for it any more, so that these get their turns; here their places do that, and who sends one now and
/// then is served at once each time.)
struct FlowQueues<Element: Sendable>: Sendable {
    /// How many bytes may wait in all.
    static var limit: Int { 1 << 20 }
    /// How much one weighs beside its bytes: its place in a line that grows by doubling, and the header of an array.
    static var weight: Int { 2 * MemoryLayout<(element: Element, size: Int)>.stride + 48 }
    /// How many such datagrams leave in a row while others wait.
    private static var mostInARow: Int { 3 }
    /// A look for the longest line costs as much as there are lines; there is one for each of so many of them that come.
    private static var patiencePart: Int { 64 }

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
    /// The sessions that had nothing waiting before, and those of which one has been served since.
    private var fresh = Deque<UInt64>()
    private var others = Deque<UInt64>()
    /// How many have come before the others in a row.
    private var inARow = 0
    /// The longest line when there was a look for it last, and how many are to come before the next look.
    private var longest: UInt64?
    private var patience = 0
    /// How many wait, and how much they weigh.
    private(set) var count = 0
    private(set) var bytes = 0

    var isEmpty: Bool { count == 0 }

    /// Whether a session waits that had nothing waiting before.
    var hasFresh: Bool { !fresh.isEmpty }

    // MARK: Coming

    /// Puts one at the end of its session's line; `false` if there is no room for a line so long. While half of all is
    /// free, any line may be; from then on each has its part of half, and when nothing is free, a longer line loses its
    /// first.
    ///
    /// - Parameter onLoss: gets what another line has lost for it.
    mutating func append(
        _ element: @autoclosure () -> Element,
        size: Int,
        of session: UInt64,
        onLoss: (Element) -> Void = { _ in }
    ) -> Bool {
        let size = size + Self.weight
        let held = flows[session]?.bytes
        patience -= 1
        guard isAllowed(size, (held ?? 0) + size, onLoss) else { return false }
        if held == nil { fresh.append(session) }
        flows[session, default: Flow()].append(element(), size)
        bytes += size
        count += 1
        return true
    }

    /// Whether one more has room, by which its line would be so long.
    private mutating func isAllowed(_ size: Int, _ length: Int, _ onLoss: (Element) -> Void) -> Bool {
        guard bytes + size > Self.limit / 2 else { return true }
        guard length == size || length <= Self.limit / 2 / max(1, flows.count) else { return false }
        while bytes + size > Self.limit {
            guard let session = longLine(above: length), let lost = flows[session]?.popFirst() else { return false }
            bytes -= lost.size
            count -= 1
            onLoss(lost.element)
        }
        return true
    }

    /// A line that is longer than so much: the one found last as long as it is, then the longest of all.
    private mutating func longLine(above length: Int) -> UInt64? {
        if let longest, let held = flows[longest]?.bytes, held > length { return longest }
        guard patience <= 0 else { return nil }
        patience = flows.count / Self.patiencePart
        var most = 0
        for (session, flow) in flows where flow.bytes > most { (longest, most) = (session, flow.bytes) }
        return most > length ? longest : nil
    }

    // MARK: Leaving

    /// Takes out what is to be served next.
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

    /// Takes out the first of the session that has waited for longest of those that had nothing waiting before; `nil`
    /// if there is none.
    mutating func popFresh() -> (session: UInt64, element: Element)? {
        while let session = fresh.first {
            if let element = serve(session, true) { return (session, element) }
        }
        return nil
    }

    /// Takes the first of a session that stands at the head of its list, and ends its tick: if more waits, it has its next one
    /// behind the others; if not, it is new the next time. `nil` if it has lost all it had.
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

    /// Nobody waits, so that nobody was kept waiting by anybody.
    private mutating func forget() {
        flows.removeAll(keepingCapacity: true)
        (fresh, others) = (Deque(), Deque())
        (inARow, longest, patience) = (0, nil, 0)
    }
}
