/// Many messages in one piece of memory, in their order: for who sends or takes more of them than there is time to give each an
/// array and a call of its own. Filled and emptied again and again, it asks for no memory.
///
/// Neither their number nor their bytes are bounded here, only the length of one: 2 GiB - 1. A link that fills a batch keeps to the
/// bounds of its inbox.
public struct MessageBatch: ~Copyable {
    // Each message lies behind its length, in four bytes in network byte order: as our framing of TCP has them on the wire, so that
    // there they go to and fro as they are.
    @usableFromInline var memory: UnsafeMutableRawPointer?
    @usableFromInline var capacity = 0
    @usableFromInline var end = 0
    /// How many messages there are.
    public internal(set) var count = 0
    /// The length of the longest since it was empty, in bytes.
    package var longest = 0
    /// What there is to say of each message beside its bytes, in payloads without bytes; empty while there is nothing.
    @usableFromInline var heads: [Payload] = []
    /// Whether more is to be said of any message than whether it is text: its topic, or how it is to be sent.
    package private(set) var hasProperties = false

    /// An empty batch without memory.
    public init() {}

    deinit {
        memory?.deallocate()
    }

    /// Whether there are no messages.
    public var isEmpty: Bool { count == 0 }
    /// The bytes of all messages together.
    public var byteCount: Int { end - Self.prefix * count }
    /// How much memory it has, in bytes.
    package var heldBytes: Int { capacity }

    @usableFromInline static let prefix = 4
    /// The longest message, in bytes.
    @usableFromInline static let limit = Int(Int32.max)

    // MARK: Filling

    /// Appends one message.
    ///
    /// - Throws: `.messageTooLarge` beyond 2 GiB - 1.
    public mutating func append(_ bytes: RawSpan, kind: Payload.Kind = .binary) throws(TransportError) {
        try bytes.withUnsafeBytes { bytes throws(TransportError) in try append(copying: bytes, kind: kind) }
    }

    /// Appends one message, with its topic and all else that is to be said of it.
    ///
    /// - Throws: `.messageTooLarge` beyond 2 GiB - 1.
    public mutating func append(_ payload: Payload) throws(TransportError) {
        try append(payload.bytes.span.bytes)
        var head = payload
        head.bytes = []
        note(head)
    }

    /// Forgets all messages, and keeps the memory.
    public mutating func removeAll() {
        (end, count, longest, hasProperties) = (0, 0, 0, false)
        heads.removeAll(keepingCapacity: true)
    }

    private mutating func append(copying bytes: UnsafeRawBufferPointer, kind: Payload.Kind) throws(TransportError) {
        guard bytes.count <= Self.limit else {
            throw TransportError(
                .messageTooLarge,
                .open,
                "\(bytes.count) bytes are more than the limit of \(Self.limit)"
            )
        }
        append(bytes.count, kind) { $0.copyMemory(from: bytes) }
    }

    /// Appends one message of `length` bytes, at most `limit`, that `write` writes.
    package mutating func append(_ length: Int, _ kind: Payload.Kind, _ write: (UnsafeMutableRawBufferPointer) -> Void)
    {
        let start = reserve(Self.prefix + length)
        start.storeBytes(of: UInt32(truncatingIfNeeded: length).bigEndian, as: UInt32.self)
        write(UnsafeMutableRawBufferPointer(start: start + Self.prefix, count: length))
        end += Self.prefix + length
        (count, longest) = (count + 1, max(longest, length))
        if kind != .binary || !heads.isEmpty { note(Payload([], kind: kind)) }
    }

    /// Appends messages that lie behind their lengths as here, the longest of `longest` bytes.
    package mutating func append(run: UnsafeRawBufferPointer, count more: Int, longest: Int) {
        guard more > 0, let source = run.baseAddress else { return }
        reserve(run.count).copyMemory(from: source, byteCount: run.count)
        end += run.count
        (count, self.longest) = (count + more, max(self.longest, longest))
        if !heads.isEmpty { heads.append(contentsOf: repeatElement(Payload([]), count: more)) }
    }

    /// Forgets the last message, which was appended by its length.
    package mutating func removeLast(of length: Int) {
        end -= Self.prefix + length
        count -= 1
        if heads.count > count { heads.removeLast() }
    }

    /// Notes what there is to say of the last message.
    private mutating func note(_ head: Payload) {
        if heads.isEmpty {
            guard head != Payload([]) else { return }
            heads = Array(repeating: Payload([]), count: count - 1)
        }
        if head != Payload([], kind: head.kind) { hasProperties = true }
        if heads.count == count { heads[count - 1] = head } else { heads.append(head) }
    }

    private mutating func reserve(_ more: Int) -> UnsafeMutableRawPointer {
        if let memory, capacity - end >= more { return memory + end }
        let grown = max(end + more, 2 * capacity, 4096)
        let fresh = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
        if let memory {
            fresh.copyMemory(from: memory, byteCount: end)
            memory.deallocate()
        }
        (memory, capacity) = (fresh, grown)
        return fresh + end
    }
}

// The one owner of the memory may hand it to another thread.
extension MessageBatch: @unchecked Sendable {}

// Reading.
extension MessageBatch {
    /// Calls `body` with each message, in their order: its bytes, where they lie, and whether they are text.
    @inlinable
    public func forEach<E: Error>(_ body: (RawSpan, Payload.Kind) throws(E) -> Void) throws(E) {
        var cursor = Cursor()
        while cursor.offset < end {
            let bytes = bytes(at: cursor)
            try body(bytes.bytes, heads.isEmpty ? .binary : heads[cursor.index].kind)
            cursor = cursor.advanced(over: bytes.count)
        }
    }

    /// All messages, each with an array of its own.
    public func payloads() -> [Payload] {
        var payloads: [Payload] = []
        payloads.reserveCapacity(count)
        var cursor = Cursor()
        while let payload = payload(at: cursor) {
            payloads.append(payload)
            cursor = cursor.advanced(over: payload.bytes.count)
        }
        return payloads
    }

    /// A place between two messages of a batch.
    public struct Cursor: Sendable, Hashable {
        /// How many messages lie before it.
        public var index: Int { place }
        @usableFromInline var place = 0
        @usableFromInline var offset = 0

        /// Before the first message.
        @inlinable
        public init() {}

        @inlinable
        func advanced(over length: Int) -> Cursor {
            var next = self
            next.place += 1
            next.offset += MessageBatch.prefix + length
            return next
        }
    }

    /// The message behind `cursor`, as an array of its own; `nil` at the end.
    public func payload(at cursor: Cursor) -> Payload? {
        guard cursor.offset < end else { return nil }
        var payload = heads.isEmpty ? Payload([]) : heads[cursor.index]
        payload.bytes = Array(bytes(at: cursor))
        return payload
    }

    /// The message behind `cursor`, which moves behind it; `nil` at the end.
    public func takePayload(at cursor: inout Cursor) -> Payload? {
        guard let payload = payload(at: cursor) else { return nil }
        cursor = cursor.advanced(over: payload.bytes.count)
        return payload
    }

    /// Gives what is behind `cursor`, at most `room` bytes and with its lengths, to `body`, and moves behind it. All of it if there
    /// is room; else message by message, and one at least.
    package func takeRun(from cursor: inout Cursor, room: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard let memory, cursor.offset < end else { return }
        let start = cursor.offset
        if end - start <= room {
            (cursor.place, cursor.offset) = (count, end)
        } else {
            repeat {
                cursor = cursor.advanced(over: bytes(at: cursor).count)
            } while cursor.offset + Self.prefix <= end
                && cursor.offset + Self.prefix + bytes(at: cursor).count - start <= room
        }
        body(UnsafeRawBufferPointer(start: memory + start, count: cursor.offset - start))
    }

    /// Calls `body` with one message after the other, from `cursor` on, until it returns `false` for one, before which that stays.
    package func forEach(from cursor: inout Cursor, _ body: (UnsafeRawBufferPointer, Payload.Kind) -> Bool) {
        while cursor.offset < end {
            let bytes = bytes(at: cursor)
            guard body(bytes, heads.isEmpty ? .binary : heads[cursor.index].kind) else { return }
            cursor = cursor.advanced(over: bytes.count)
        }
    }

    /// The bytes of the message behind `cursor`, which is not at the end.
    @inlinable
    func bytes(at cursor: Cursor) -> UnsafeRawBufferPointer {
        guard let memory else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let start = memory + cursor.offset
        let length = Int(UInt32(bigEndian: start.loadUnaligned(as: UInt32.self)))
        return UnsafeRawBufferPointer(start: start + Self.prefix, count: length)
    }
}
