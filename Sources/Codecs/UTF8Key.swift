/// A text as a key, compared and hashed by its UTF-8. Both take a time proportional to its length.
///
/// `String` compares by canonical equivalence (Unicode, section 3.7). It normalises its text for that, in a time that
/// is quadratic in the length of a run of combining marks. Identifiers of a protocol are equal only if their bytes are.
/// The text of a peer is hashed only as this type, or within ``CodecLimits/maximumKeyLength``.
@usableFromInline
package struct UTF8Key: Sendable, Hashable, ExpressibleByStringLiteral {
    /// The text.
    @usableFromInline package var text: String

    /// The key of `text`.
    @inlinable
    package init(_ text: String) { self.text = text }

    /// The key of a literal.
    @inlinable
    package init(stringLiteral text: String) { self.text = text }

    /// Whether both have the same bytes.
    @usableFromInline
    package static func == (left: UTF8Key, right: UTF8Key) -> Bool { left.text.hasSameUTF8(as: right.text) }

    /// Hashes the bytes.
    @usableFromInline
    package func hash(into hasher: inout Hasher) {
        if text.utf8.withContiguousStorageIfAvailable({ hasher.combine(bytes: UnsafeRawBufferPointer($0)) }) != nil {
            return
        }
        Array(text.utf8).withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// A map with such keys can hold two that are equal as `String` and differ in their bytes.
extension UTF8Key: WireMapKey {
    /// The empty text.
    @inlinable
    package init() { text = "" }
    /// Whether it is empty.
    @inlinable
    package var isDefault: Bool { text.isEmpty }
    /// Its length in bytes of UTF-8.
    @inlinable
    package var utf8Length: Int { text.utf8.count }
    /// Length-delimited.
    @inlinable
    package static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }
    /// Writes the text.
    @inlinable
    package func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(text)
    }
    /// Reads a text.
    @inlinable
    package mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        text = try reader.readString()
    }
    /// Whether its UTF-8 comes before that of `other`.
    @inlinable
    package func precedes(_ other: UTF8Key) -> Bool { text.precedes(other.text) }
}

extension String {
    /// Whether both have the same UTF-8. `==` compares by canonical equivalence; see ``UTF8Key``.
    package func hasSameUTF8(as other: String) -> Bool {
        let isSame: Bool?? = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in
                guard left.count == right.count, let first = left.baseAddress, let second = right.baseAddress else {
                    return left.count == right.count
                }
                return JSONName.difference(first, second, left.count) == 0
            }
        }
        if case .some(.some(let isSame)) = isSame { return isSame }
        return utf8.elementsEqual(other.utf8)
    }
}

extension Dictionary where Key: WireMapKey, Value: WireValue {
    /// Stores the value of a key that has been read. `false` if the map has an equal key with other bytes.
    @inlinable @inline(__always)
    mutating func set(_ value: Value, of key: Key) -> Bool {
        // One allocation, instead of three while the map grows to a few entries.
        if isEmpty { self = Dictionary(minimumCapacity: 4) }
        let before = count
        self[key] = value
        return count != before || holdsBytes(of: key)
    }

    /// Whether the key of the map that equals `key` has the same bytes.
    @inlinable @inline(never)
    func holdsBytes(of key: Key) -> Bool {
        guard let index = index(forKey: key) else { return false }
        let held = keys[index]
        return !held.precedes(key) && !key.precedes(held)
    }
}
