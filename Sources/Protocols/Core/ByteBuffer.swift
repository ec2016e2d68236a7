/// A growable byte buffer that is read at its front and written at its back. It has one owner.
///
/// It cannot be copied, so it needs neither reference counts nor uniqueness checks. One read from a socket serves every
/// frame that arrived with it. Reading past the end returns `nil` and never traps.
public struct ByteBuffer: ~Copyable {
    // Generic methods and methods that are called for each message are inlinable, because other modules would run them
    // unspecialized otherwise.

    @usableFromInline var base: UnsafeMutableRawPointer?
    /// The number of bytes that fit without growing.
    public internal(set) var capacity: Int
    @usableFromInline var head = 0
    @usableFromInline var tail = 0

    /// Creates an empty buffer that owns no memory yet.
    public init() {
        base = nil
        capacity = 0
    }

    /// Creates an empty buffer.
    ///
    /// - Parameter capacity: the number of bytes that fit without growing. A negative number counts as 0.
    public init(capacity: Int) {
        base = capacity > 0 ? .allocate(byteCount: capacity, alignment: 16) : nil
        self.capacity = max(capacity, 0)
    }

    /// Creates an empty buffer that owns `memory`, which was allocated with an alignment of 16.
    package init(adopting memory: UnsafeMutableRawPointer, capacity: Int) {
        base = memory
        self.capacity = capacity
    }

    /// Gives up the memory of an empty buffer and returns it. Returns `nil` unless the buffer is empty and has exactly
    /// `size` bytes of memory.
    package mutating func surrender(size: Int) -> UnsafeMutableRawPointer? {
        guard isEmpty, capacity == size, let memory = base else { return nil }
        base = nil
        capacity = 0
        return memory
    }

    deinit {
        base?.deallocate()
    }

    /// The number of unread bytes.
    @inlinable
    public var count: Int { tail - head }
    /// Whether there are no unread bytes.
    @inlinable
    public var isEmpty: Bool { tail == head }
    /// The number of bytes that can be appended without growing or moving.
    @inlinable
    public var writableCount: Int { capacity - tail }

    /// Calls `body` with the unread bytes.
    ///
    /// - Parameter body: receives the bytes. Their pointer must not outlive the call.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`.
    @inlinable
    public func withUnsafeReadableBytes<R, E: Error>(
        _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        guard let base else { return try body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return try body(UnsafeRawBufferPointer(start: base + head, count: tail - head))
    }

    /// Calls `body` with the unread bytes, which it may change in place, for example to unmask them.
    ///
    /// - Parameter body: receives the bytes. Their pointer must not outlive the call.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`.
    @inlinable
    public mutating func withUnsafeMutableReadableBytes<R, E: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        guard let base else { return try body(UnsafeMutableRawBufferPointer(start: nil, count: 0)) }
        return try body(UnsafeMutableRawBufferPointer(start: base + head, count: tail - head))
    }

    /// Appends the bytes that `body` writes.
    ///
    /// - Parameters:
    ///   - minimum: the number of bytes that can be written at least.
    ///   - body: receives the writable memory, writes from its start, and returns how many bytes it wrote.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`. Nothing is appended then.
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

    /// The size in bytes from which on the buffer grows by a quarter. Doubling moves fewer bytes, but can allocate as
    /// much memory again for a few bytes.
    private static let carefulSize = 1 << 20

    /// Makes room for more bytes. It moves the unread bytes to the front, or allocates if that does not suffice.
    ///
    /// - Parameter additional: the number of bytes that can be appended afterwards without growing or moving.
    public mutating func reserve(_ additional: Int) {
        reserve(additional, most: .max)
    }

    /// Makes room for more bytes, like ``reserve(_:)``. The buffer grows to `most` bytes at most, unless it needs more.
    package mutating func reserve(_ additional: Int, most: Int) {
        guard capacity - tail < additional else { return }
        let waiting = count
        if let base, capacity - waiting >= additional, head >= waiting {
            base.copyMemory(from: base + head, byteCount: waiting)
        } else {
            let step = capacity < Self.carefulSize ? capacity : capacity / 4
            let grown = max(waiting + additional, min(capacity + step, most), 64)
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

    /// Discards unread bytes, the oldest first.
    ///
    /// - Parameter count: how many. If there are fewer, all are discarded.
    @inlinable
    public mutating func consume(_ count: Int) {
        head += max(0, min(count, self.count))
        if head == tail {
            head = 0
            tail = 0
        }
    }

    /// Discards all unread bytes and keeps the memory.
    public mutating func removeAll() {
        head = 0
        tail = 0
    }
}

// The memory has exactly one owner, so it may move to another thread.
extension ByteBuffer: @unchecked Sendable {}

extension ByteBuffer {
    /// Returns one unread byte without consuming it.
    ///
    /// - Parameter offset: the distance from the first unread byte.
    /// - Returns: the byte, or `nil` if it has not arrived.
    @inlinable
    public func byte(at offset: Int) -> UInt8? {
        guard offset >= 0, offset < count else { return nil }
        return withUnsafeReadableBytes { $0[offset] }
    }

    /// Returns an integer in network byte order without consuming it.
    ///
    /// - Parameters:
    ///   - offset: the distance of its first byte from the first unread byte.
    ///   - type: the type of the integer.
    /// - Returns: the integer, or `nil` if not all its bytes have arrived.
    @inlinable
    public func integer<T: FixedWidthInteger>(at offset: Int, as type: T.Type = T.self) -> T? {
        guard offset >= 0, count - offset >= MemoryLayout<T>.size else { return nil }
        return withUnsafeReadableBytes { T(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: T.self)) }
    }

    /// Returns a copy of unread bytes without consuming them.
    ///
    /// - Parameters:
    ///   - offset: the distance of the first of them from the first unread byte.
    ///   - wanted: how many.
    /// - Returns: the bytes, or `nil` if they have not all arrived.
    @inlinable
    public func bytes(at offset: Int, count wanted: Int) -> [UInt8]? {
        guard offset >= 0, wanted >= 0, count - offset >= wanted else { return nil }
        return withUnsafeReadableBytes { [UInt8](UnsafeRawBufferPointer(rebasing: $0[offset..<offset + wanted])) }
    }

    /// Appends one byte.
    ///
    /// - Parameter byte: the byte.
    @inlinable
    public mutating func append(_ byte: UInt8) {
        _ = write(minimum: 1) { target in
            target[0] = byte
            return 1
        }
    }

    /// Appends an integer in network byte order.
    ///
    /// - Parameter integer: the integer. All bytes of its type are written.
    @inlinable
    public mutating func append<T: FixedWidthInteger>(integer: T) {
        _ = write(minimum: MemoryLayout<T>.size) { target in
            target.storeBytes(of: integer.bigEndian, as: T.self)
            return MemoryLayout<T>.size
        }
    }

    /// Appends the bytes of an array.
    ///
    /// - Parameter bytes: the bytes.
    @inlinable
    public mutating func append(contentsOf bytes: [UInt8]) {
        bytes.withUnsafeBytes { append(contentsOf: $0) }
    }

    /// Appends bytes from memory that is not owned by the buffer.
    ///
    /// - Parameter bytes: the bytes, which are copied.
    @inlinable
    public mutating func append(contentsOf bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        _ = write(minimum: bytes.count) { target in
            target.copyMemory(from: bytes)
            return bytes.count
        }
    }

    /// Appends a text in UTF-8.
    ///
    /// - Parameter text: the text.
    public mutating func append(utf8 text: String) {
        var text = text
        text.withUTF8 { append(contentsOf: UnsafeRawBufferPointer($0)) }
    }
}
