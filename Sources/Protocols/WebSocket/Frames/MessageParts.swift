/// The bytes of a message while they arrive: in parts, so that nothing moves when more come, and then in one array,
/// part by part. Whoever works with it sees to others in between.
struct MessageParts: Sendable {
    /// How large parts are: the most that is reserved ahead of what has come, and copied at a time.
    static let size = 64 << 10
    /// How much a part may grow beyond that, where what is added can't be told before.
    static let slack = 16 << 10

    /// Parts that are full; empty once they are joined.
    private var full: [[UInt8]] = []
    private var fullBytes = 0
    private var fullCapacity = 0
    /// The part that grows.
    var last: [UInt8] = []
    private var joined: [UInt8] = []
    private var joinedParts = 0

    /// How many bytes have come.
    var count: Int { fullBytes + last.count }
    /// How many of them the full parts have.
    var settled: Int { fullBytes }
    /// How much memory they take. Of the array that they become, which is reserved whole, it is what is filled: the
    /// rest was not touched yet, and each part is let go of as it is joined.
    var capacity: Int { fullCapacity + last.capacity + joined.count }

    /// Begins a new part, with so much room, if the last one is full: who has sent a whole one may well fill another.
    mutating func beginPart(room: Int) {
        guard last.count >= Self.size else { return }
        fullBytes += last.count
        fullCapacity += last.capacity
        full.append(last)
        last = []
        last.reserveCapacity(room)
    }

    /// Joins one part more to those before; the message when that was the last.
    mutating func join() -> [UInt8]? {
        if joinedParts < full.count {
            if joinedParts == 0 { joined.reserveCapacity(count) }
            fullCapacity -= full[joinedParts].capacity
            joined.append(contentsOf: full[joinedParts])
            full[joinedParts] = []
            joinedParts += 1
            return nil
        }
        var message: [UInt8] = []
        swap(&message, &joined)
        if full.isEmpty { swap(&message, &last) } else { message.append(contentsOf: last) }
        self = MessageParts()
        return message
    }
}
