/// A growing run of bytes with a reader's end and a writer's end, owned by one holder.
///
/// It cannot be copied, so it needs neither reference counts nor uniqueness checks, and one read of the socket serves
/// every frame that it held. Reading past the end gives `nil`, never a trap.
public struct ByteBuffer: ~Copyable {
    // What is generic or called for each message is inlinable, because otherwise other modules run it unspecialized.

    @usableFromInline var base: UnsafeMutableRawPointer?
    /// How many bytes fit without growing.
    public internal(set) var capacity: Int
    @usableFromInline var head = 0
    @usableFromInline var tail = 0

    /// An empty buffer that owns no memory yet.
    public init() {
        base = nil
        capacity = 0
    }

    /// An empty buffer with room for `capacity` bytes.
    public init(capacity: Int) {
        base = capacity > 0 ? .allocate(byteCount: capacity, alignment: 16) : nil
        self.capacity = max(capacity, 0)
    }

    /// An empty buffer that owns `memory`, which was allocated with an alignment of 16.
    package init(adopting memory: UnsafeMutableRawPointer, capacity: Int) {
        base = memory
        self.capacity = capacity
    }

    /// Gives up the memory of an empty buffer, if it has any and it is of `size` bytes.
    package mutating func surrender(size: Int) -> UnsafeMutableRawPointer? {
        guard isEmpty, capacity == size, let memory = base else { return nil }
        base = nil
        capacity = 0
        return memory
    }

    deinit {
        base?.deallocate()
    }

    /// How many bytes wait to be read.
    @inlinable
    public var count: Int { tail - head }
    /// Whether nothing waits to be read.
    @inlinable
    public var isEmpty: Bool { tail == head }
    /// How many bytes can be written behind the last without growing or moving.
    @inlinable
    public var writableCount: Int { capacity - tail }

    /// The bytes that wait to be read. The pointer must not outlive the closure.
    @inlinable
    public func withUnsafeReadableBytes<R, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        guard let base else { return try body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return try body(UnsafeRawBufferPointer(start: base + head, count: tail - head))
    }

    /// The bytes that wait to be read, to be changed in place (unmasking).
    @inlinable
    public mutating func withUnsafeMutableReadableBytes<R, E: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        guard let base else { return try body(UnsafeMutableRawBufferPointer(start: nil, count: 0)) }
        return try body(UnsafeMutableRawBufferPointer(start: base + head, count: tail - head))
    }

    /// Offers at least `minimum` writable bytes to `body`, which returns how many of them it wrote.
    @inlinable
    public mutating func write<E: Error>(
        minimum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws(E) -> Int
    ) throws(E) -> Int {
        reserve(minimum)
        guard let base else { return 0 }
        let written = try body(UnsafeMutableRawBufferPointer(start: base + tail, count: capacity - tail))
        tail += max(0, min(written, capacity - tail))
        return written
    }

    /// From which size on it grows by a quarter, in bytes. Doubling moves fewer bytes, but keeps as much memory again
    /// that a few bytes more may never fill.
    private static let carefulSize = 1 << 20

    /// Makes room for `additional` bytes behind the last, moving what waits to the front before growing.
    public mutating func reserve(_ additional: Int) {
        guard capacity - tail < additional else { return }
        let waiting = count
        if let base, capacity - waiting >= additional, head >= waiting {
            base.copyMemory(from: base + head, byteCount: waiting)
        } else {
            let step = capacity < Self.carefulSize ? capacity : capacity / 4
            let grown = max(waiting + additional, capacity + step, 64)
            let fresh = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            if let base {
                fresh.copyMemory(from: base + head, byteCount: waiting)
                base.deallocate()
            }
            base = fresh
            capacity = grown
        }
        head = 0
        tail = waiting
    }

    /// Forgets the first `count` bytes that wait to be read (all, if there are fewer).
    @inlinable
    public mutating func consume(_ count: Int) {
        head += max(0, min(count, self.count))
        if head == tail {
            head = 0
            tail = 0
        }
    }

    /// Forgets all that waits; keeps the memory.
    public mutating func removeAll() {
        head = 0
        tail = 0
    }
}

// The one owner of the memory may hand it to another thread.
extension ByteBuffer: @unchecked Sendable {}

extension ByteBuffer {
    /// The byte at `offset` behind the reader's end, if it has arrived.
    @inlinable
    public func byte(at offset: Int) -> UInt8? {
        guard offset >= 0, offset < count else { return nil }
        return withUnsafeReadableBytes { $0[offset] }
    }

    /// An integer in network byte order at `offset`, if all its bytes have arrived.
    @inlinable
    public func integer<T: FixedWidthInteger>(at offset: Int, as type: T.Type = T.self) -> T? {
        guard offset >= 0, count - offset >= MemoryLayout<T>.size else { return nil }
        return withUnsafeReadableBytes { T(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: T.self)) }
    }

    /// A copy of `count` bytes at `offset`, if they have all arrived.
    @inlinable
    public func bytes(at offset: Int, count wanted: Int) -> [UInt8]? {
        guard offset >= 0, wanted >= 0, count - offset >= wanted else { return nil }
        return withUnsafeReadableBytes { [UInt8](UnsafeRawBufferPointer(rebasing: $0[offset..<offset + wanted])) }
    }

    /// Appends one byte.
    @inlinable
    public mutating func append(_ byte: UInt8) {
        _ = write(minimum: 1) { target in
            target[0] = byte
            return 1
        }
    }

    /// Appends an integer in network byte order.
    @inlinable
    public mutating func append<T: FixedWidthInteger>(integer: T) {
        _ = write(minimum: MemoryLayout<T>.size) { target in
            target.storeBytes(of: integer.bigEndian, as: T.self)
            return MemoryLayout<T>.size
        }
    }

    /// Appends bytes.
    @inlinable
    public mutating func append(contentsOf bytes: [UInt8]) {
        bytes.withUnsafeBytes { append(contentsOf: $0) }
    }

    /// Appends bytes.
    @inlinable
    public mutating func append(contentsOf bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        _ = write(minimum: bytes.count) { target in
            target.copyMemory(from: bytes)
            return bytes.count
        }
    }

    /// Appends the UTF-8 of `text`.
    public mutating func append(utf8 text: String) {
        var text = text
        text.withUTF8 { append(contentsOf: UnsafeRawBufferPointer($0)) }
    }
}
