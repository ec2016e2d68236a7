/// The output of a writer. It begins in memory of the caller, and moves to its own memory when that is full.
///
/// It has no references to count, so writing a message counts none. Its creator must call ``release()`` at the end.
/// Only ``withEncoded(_:by:_:)``, ``Swift/Array/appendMessage(_:by:)``, ``JSONValue/json(limits:)`` and ``XMLReader`` create
/// one.
@usableFromInline
struct ByteSink {
    @usableFromInline var base: UnsafeMutablePointer<UInt8>
    @usableFromInline var count = 0
    @usableFromInline var capacity: Int
    @usableFromInline var ownsMemory = false

    /// A sink that begins in the caller's memory.
    @inlinable @inline(__always)
    init(base: UnsafeMutablePointer<UInt8>, capacity: Int) {
        self.base = base
        self.capacity = capacity
    }

    /// Makes room for `additional` more bytes.
    @inlinable @inline(__always)
    mutating func reserve(_ additional: Int) {
        if capacity &- count < additional { grow(additional) }
    }

    @inline(never)
    @usableFromInline
    mutating func grow(_ additional: Int) {
        let grown = max(count + additional + 64, capacity * 2)
        let fresh = UnsafeMutablePointer<UInt8>.allocate(capacity: grown)
        fresh.update(from: base, count: count)
        release()
        base = fresh
        capacity = grown
        ownsMemory = true
    }

    /// Frees the memory that the sink has allocated.
    @inlinable
    func release() {
        if ownsMemory { base.deallocate() }
    }

    // The functions below write into room that the caller has reserved.

    @inlinable @inline(__always)
    mutating func put(_ byte: UInt8) {
        base[count] = byte
        count &+= 1
    }

    @inlinable @inline(__always)
    mutating func put(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress else { return }
        copyBytes(source, count: bytes.count, to: base + count)
        count &+= bytes.count
    }

    @inlinable @inline(__always)
    mutating func put(_ text: StaticString) {
        put(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inlinable @inline(__always)
    mutating func put<I: FixedWidthInteger>(littleEndian value: I) {
        UnsafeMutableRawPointer(base + count).storeBytes(of: value.littleEndian, as: I.self)
        count &+= MemoryLayout<I>.size
    }

    /// A base-128 varint of up to ten bytes.
    @inlinable @inline(__always)
    mutating func put(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            put(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest &>>= 7
        }
        put(UInt8(truncatingIfNeeded: rest))
    }
}

extension ByteSink {
    /// Writes a number in decimal digits. It reserves the room itself.
    @usableFromInline
    mutating func put(decimal magnitude: UInt64, isNegative: Bool) {
        // Room for a sign and three groups of eight digits.
        reserve(25)
        if isNegative { put(UInt8(ascii: "-")) }
        let group: UInt64 = 100_000_000
        guard magnitude >= group else { return putFirst(magnitude) }
        let (upper, last) = magnitude.quotientAndRemainder(dividingBy: group)
        if upper < group {
            putFirst(upper)
        } else {
            let (first, middle) = upper.quotientAndRemainder(dividingBy: group)
            putFirst(first)
            put(littleEndian: JSONWord.digits(middle) | JSONWord.zeros)
        }
        put(littleEndian: JSONWord.digits(last) | JSONWord.zeros)
    }

    /// Writes `value`, which has at most eight digits, without leading zeros. There is room for eight.
    @inline(__always)
    private mutating func putFirst(_ value: UInt64) {
        let digits = JSONWord.digits(value)
        // The last digit is written even if it is zero.
        let leading = (digits | 1 &<< 56).trailingZeroBitCount & ~7
        let end = count &+ 8 &- leading / 8
        put(littleEndian: (digits | JSONWord.zeros) &>> UInt64(leading))
        count = end
    }
}

/// Copies bytes to other memory. Lengths of 8 to 16, which most names and identifiers have, take no function call.
@inlinable @inline(__always)
func copyBytes(_ source: UnsafePointer<UInt8>, count: Int, to target: UnsafeMutablePointer<UInt8>) {
    guard count >= 8, count <= 16 else { return target.initialize(from: source, count: count) }
    // The two words overlap. The first word is written last, because a read that follows at once, as when a short
    // string is made, needs it in a single store (store-to-load forwarding).
    let first = UnsafeRawPointer(source).loadUnaligned(as: UInt64.self)
    let last = UnsafeRawPointer(source + (count &- 8)).loadUnaligned(as: UInt64.self)
    UnsafeMutableRawPointer(target + (count &- 8)).storeBytes(of: last, as: UInt64.self)
    UnsafeMutableRawPointer(target).storeBytes(of: first, as: UInt64.self)
}

/// A codec that writes into a sink.
@usableFromInline
protocol SinkCodec: MessageCodec {
    /// Appends the message to the sink.
    func write<M: WireMessage>(_ message: M, to sink: inout ByteSink) throws(CodecError)
}

/// Encodes the message on the stack, and calls `body` with its bytes.
@inlinable @inline(__always)
func withEncoded<M: WireMessage, C: SinkCodec, Result>(
    _ message: M,
    by codec: C,
    _ body: (UnsafeBufferPointer<UInt8>) -> Result
) throws(CodecError) -> Result {
    try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1024) { scratch throws(CodecError) in
        guard let base = scratch.baseAddress else { return body(UnsafeBufferPointer(start: nil, count: 0)) }
        var sink = ByteSink(base: base, capacity: 1024)
        defer { sink.release() }
        try codec.write(message, to: &sink)
        guard sink.count <= codec.limits.maximumLength else { throw CodecError(.tooLong, at: sink.count) }
        return body(UnsafeBufferPointer(start: sink.base, count: sink.count))
    }
}

extension [UInt8] {
    /// Appends the encoded message. On an error it appends nothing.
    ///
    /// Reserved room of the array is written in place. Without enough of it, the message is encoded on the stack first,
    /// so that a short message takes one allocation of its size at most. `codec` is a generic parameter and not a
    /// closure, so that the compiler can inline it.
    @inlinable @inline(__always)
    mutating func appendMessage<M: WireMessage, C: SinkCodec>(_ message: M, by codec: C) throws(CodecError) {
        let room = capacity - count
        guard room >= 128 else { return try appendFromStack(message, by: codec) }
        var outgrown: ByteSink?
        try append(addingCapacity: room) { span throws(CodecError) in
            try span.withUnsafeMutableBufferPointer { tail, written throws(CodecError) in
                guard let base = tail.baseAddress else { return }
                var sink = ByteSink(base: base, capacity: tail.count)
                do throws(CodecError) {
                    try codec.write(message, to: &sink)
                    guard sink.count <= codec.limits.maximumLength else { throw CodecError(.tooLong, at: sink.count) }
                } catch {
                    sink.release()
                    throw error
                }
                if sink.ownsMemory { outgrown = sink } else { written = sink.count }
            }
        }
        if let outgrown { append(outgrown: outgrown) }
    }

    @inlinable @inline(never)
    mutating func appendFromStack<M: WireMessage, C: SinkCodec>(_ message: M, by codec: C) throws(CodecError) {
        try withEncoded(message, by: codec) { if capacity == 0 { self = Array($0) } else { append(contentsOf: $0) } }
    }

    @inline(never)
    @usableFromInline
    mutating func append(outgrown sink: ByteSink) {
        // Writers reserve more than they write, so the next message of this size needs a little more room than it
        // fills.
        let needed = count + sink.count + 64
        if capacity < needed { reserveCapacity(Swift.max(needed, capacity * 2)) }
        append(contentsOf: UnsafeBufferPointer(start: sink.base, count: sink.count))
        sink.release()
    }
}

/// Whether `left` comes before `right` in the order of their bytes. Eight bytes are compared at a time.
@usableFromInline
func precedes(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
    let count = min(left.count, right.count)
    let (leftWords, rightWords) = (UnsafeRawBufferPointer(left), UnsafeRawBufferPointer(right))
    var index = 0
    while count - index >= 8 {
        let word = leftWords.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        let other = rightWords.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        if word != other { return UInt64(bigEndian: word) < UInt64(bigEndian: other) }
        index += 8
    }
    while index < count {
        if left[index] != right[index] { return left[index] < right[index] }
        index += 1
    }
    return left.count < right.count
}

/// Calls `body` for each entry in the order of the keys. Up to 16 entries are sorted on the stack.
@inlinable
func forEachInKeyOrder<K: WireMapKey, T: WireValue>(
    _ values: [K: T],
    _ body: (K, T) throws(CodecError) -> Void
) throws(CodecError) {
    guard values.count > 1 else {
        for entry in values { try body(entry.key, entry.value) }
        return
    }
    guard values.count <= 16 else {
        for entry in values.sorted(by: { $0.key.precedes($1.key) }) { try body(entry.key, entry.value) }
        return
    }
    try withUnsafeTemporaryAllocation(of: (key: K, value: T).self, capacity: 16) { slots throws(CodecError) in
        guard let base = slots.baseAddress else { return }
        var count = 0
        defer { base.deinitialize(count: count) }
        for entry in values where count < 16 {
            var hole = count
            while hole > 0, entry.key.precedes(base[hole - 1].key) { hole -= 1 }
            (base + hole + 1).moveInitialize(from: base + hole, count: count - hole)
            (base + hole).initialize(to: entry)
            count += 1
        }
        for index in 0..<count { try body(base[index].key, base[index].value) }
    }
}
