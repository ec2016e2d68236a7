/// What has come for the sessions of a shared socket and waits to be served: a line for each session, bounded together.
///
/// All sessions share one queue in the kernel, where whoever sends little waits behind whoever sends much, and loses what finds it
/// full. So that queue is emptied first and served from here: a session that had nothing waiting comes before the others, for as
/// much as a few datagrams; the others take turns, one datagram each. Who sends more than is served loses it, and nobody else does.
/// (Flow queueing as of RFC 8290, section 4.1, counted in datagrams, since that is what they cost.)
struct FlowQueues<Element: Sendable>: Sendable {
    /// How many bytes may wait in all, and how much one of them weighs beside its bytes.
    static var limit: Int { 1 << 20 }
    static var weight: Int { 128 }
    /// How many datagrams of a session that had nothing waiting come before the others.
    private static var headStart: Int { 4 }

    private struct Flow {
        var waiting = Queue<(element: Element, size: Int)>()
        var bytes = 0
        /// How many more are served before others have their turn.
        var credit = FlowQueues.headStart

        mutating func append(_ element: Element, _ size: Int) {
            waiting.append((element, size))
            bytes += size
        }

        mutating func popFirst() -> (element: Element, size: Int)? {
            guard let taken = waiting.popFirst() else { return nil }
            bytes -= taken.size
            credit -= 1
            return taken
        }
    }

    private var flows: [UInt64: Flow] = [:]
    private var fresh = Queue<UInt64>()
    private var others = Queue<UInt64>()
    /// How many wait, and how much they weigh.
    private(set) var count = 0
    private(set) var bytes = 0

    var isEmpty: Bool { count == 0 }

    /// Puts one at the end of its session's line; `false` if there is no room, or none for a line so long among so many.
    mutating func append(_ element: @autoclosure () -> Element, size: Int, of session: UInt64) -> Bool {
        let size = size + Self.weight
        guard bytes + size <= Self.limit else { return false }
        if let held = flows[session]?.bytes {
            guard held == 0 || held + size <= Self.limit / 2 / flows.count else { return false }
        } else {
            fresh.append(session)
        }
        flows[session, default: Flow()].append(element(), size)
        bytes += size
        count += 1
        return true
    }

    /// Takes out what is to be served next.
    mutating func popFirst() -> (session: UInt64, element: Element)? {
        guard count > 0 else { return nil }
        while true {
            let isFresh = !fresh.isEmpty
            guard let session = isFresh ? fresh.head : others.head else { return nil }
            let taken = flows[session]?.popFirst()
            if let taken {
                bytes -= taken.size
                count -= 1
            }
            pass(session, isFresh, wasEmpty: taken == nil)
            if count == 0 { forget() }
            if let taken { return (session, taken.element) }
        }
    }

    /// Lets the others have their turn when a session's is over. One that was served of late has no second head start.
    private mutating func pass(_ session: UInt64, _ isFresh: Bool, wasEmpty: Bool) {
        guard wasEmpty || flows[session]?.credit == 0 else { return }
        _ = isFresh ? fresh.popFirst() : others.popFirst()
        if wasEmpty && !isFresh {
            flows[session] = nil
        } else {
            flows[session]?.credit = 1
            others.append(session)
        }
    }

    /// Nobody waits, so that nobody was kept waiting by anybody.
    private mutating func forget() {
        flows.removeAll(keepingCapacity: true)
        (fresh, others) = (Queue(), Queue())
    }
}
