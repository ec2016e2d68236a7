/// The bytes of a message under assembly. They are stored in parts, so that nothing moves when more arrive. Then the
/// parts are joined to one array, one per call, so that other connections can be served in between.
struct MessageParts: Sendable {
    /// The size of a part in bytes: the most that is reserved in advance, and copied at a time.
    static let size = 64 << 10
    /// How much larger a part may become if the size of the appended bytes is not known before.
    static let slack = 16 << 10

    /// The parts that are full. A joined part becomes empty.
    private var full: [[UInt8]] = []
    private var fullBytes = 0
    private var fullCapacity = 0
    /// The part that grows.
    var last: [UInt8] = []
    private var joined: [UInt8] = []
    private var joinedParts = 0

    /// How many bytes have arrived.
    var count: Int { fullBytes + last.count }
    /// How many bytes are in the full parts.
    var settled: Int { fullBytes }
    /// How much memory the parts take, in bytes. Of the joined array, only the filled bytes count. The rest is reserved
    /// but not touched yet, and each part is released when it is joined.
    var capacity: Int { fullCapacity + last.capacity + joined.count }

    /// Begins a new part with `room` bytes of capacity if the last one is full, because the peer that filled a part may
    /// fill another.
    mutating func beginPart(room: Int) {
        guard last.count >= Self.size else { return }
        fullBytes += last.count
        fullCapacity += last.capacity
        full.append(last)
        last = []
        last.reserveCapacity(room)
    }

    /// Joins one more part to those before. Returns the message after the last part.
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
