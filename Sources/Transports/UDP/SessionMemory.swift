/// How much all reliable sessions of a server hold of messages that nobody has taken yet, and which of them must go when that is
/// too much.
///
/// Each session is bounded by its own window; many of them together, which clients with fragments and no last one can open,
/// are bounded by this.
struct SessionMemory: Sendable {
    private let limit: Int
    /// At least what each holds; less is only seen when it matters.
    private var held: [UInt64: Int] = [:]
    private(set) var total = 0

    /// - Parameter limit: in bytes.
    init(limit: Int) {
        self.limit = limit
    }

    var isExceeded: Bool { total > limit }

    /// A session holds so many bytes.
    mutating func set(_ session: UInt64, _ bytes: Int) {
        total += bytes - (held[session] ?? 0)
        held[session] = bytes == 0 ? nil : bytes
    }

    /// Looks at all sessions anew; gives those that must be ended to be well below the limit, which hold the most.
    ///
    /// - Parameter measure: what a session holds by now.
    mutating func excess(_ measure: (UInt64) -> Int) -> [UInt64] {
        for session in Array(held.keys) { set(session, measure(session)) }
        guard isExceeded else { return [] }
        var ending: [UInt64] = []
        for (session, _) in held.sorted(by: { $0.value > $1.value }) where total > limit / 8 * 7 {
            set(session, 0)
            ending.append(session)
        }
        return ending
    }
}
