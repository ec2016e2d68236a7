/// Whether a shared socket brings more than can be worked off, and which of its sessions have had their part by then.
///
/// All sessions share one queue in the kernel; where it is full, anybody's datagrams are lost. So when it is about to be, it is
/// emptied, and of what is in it each session is served a bounded number of datagrams: who sends little loses nothing, and who
/// sends much loses what the queue could not have held. (The idea is that of fair queueing, RFC 8290, without queues.)
struct Backlog: Sendable {
    /// How many datagrams the sessions are served together while the queue is emptied, and each of them at least.
    private static let together = 32
    private static let least = 1

    /// Names the present run of datagrams, which ends when the queue is found empty.
    private(set) var run: UInt64 = 1
    private var sessions = 0
    /// Whether the queue must be emptied.
    private(set) var isOverdue = false

    /// The queue was found empty.
    mutating func emptied() {
        run &+= 1
        sessions = 0
        isOverdue = false
    }

    /// Something is left in the queue, which is about to be full or not.
    mutating func left(isFilling: Bool) {
        if isFilling { isOverdue = true }
    }

    /// Counts a datagram of a session; whether it is to be served.
    mutating func serves(_ part: inout Part) -> Bool {
        if part.run != run {
            part = Part(run: run)
            sessions += 1
        }
        // Alone, it can only harm itself, and gains nothing by losses.
        guard isOverdue, sessions > 1 else { return true }
        part.served += 1
        return part.served <= max(Self.least, Self.together / sessions)
    }

    /// What a session has had of a run.
    struct Part: Sendable {
        fileprivate var run: UInt64 = 0
        fileprivate var served = 0

        init() {}

        fileprivate init(run: UInt64) {
            self.run = run
        }
    }
}
