import TransportAPI

/// The format of the file of a ``FileOutboxStore`` (`Docs/reference/outbox-store.md`): a header, and then a frame for each
/// write. A reader is ``OutboxLogReader``.
package enum OutboxLog {
    /// The place of a value in the file, and its checksum, which shows whether the file has changed since.
    package struct Place: Sendable {
        var offset: Int
        var checksum: UInt32
    }

    /// The first bytes of each file.
    static let magic = Array("imoutbox".utf8)
    /// The version of the format.
    static let version: UInt32 = 1
    /// The size of the header: magic and version.
    static let headerBytes = 12
    /// The size of what precedes the changes of a frame: their length, their checksum, and the checksum of both.
    static let frameHeaderBytes = 12
    /// The size of a change that puts a record, without its value.
    static let putBytes = 14
    /// The size of a change that removes a record.
    static let removeBytes = 10
    /// The first byte of a change.
    static let (put, remove): (UInt8, UInt8) = (1, 2)

    /// The header of a file.
    package static var header: [UInt8] {
        var bytes = magic
        append(version, to: &bytes)
        return bytes
    }

    /// Returns the size of the changes in a frame.
    static func bodyBytes(_ changes: [StoreChange]) -> Int {
        changes.reduce(0) { sum, change in
            switch change {
            case .put(let record): sum + putBytes + record.value.count
            case .remove: sum + removeBytes
            }
        }
    }

    /// Returns the frame of these changes, whose size must fit in 32 bits. `places` receives the place of each value that is
    /// put, in order, if the frame begins at `offset`.
    package static func frame(_ changes: [StoreChange], at offset: Int, places: inout [Place]) -> [UInt8] {
        let size = bodyBytes(changes)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(frameHeaderBytes + size)
        bytes.append(contentsOf: repeatElement(0, count: frameHeaderBytes))
        for change in changes {
            switch change {
            case .put(let record):
                bytes.append(put)
                append(record.key, to: &bytes)
                append(UInt32(truncatingIfNeeded: record.value.count), to: &bytes)
                places.append(
                    Place(offset: offset + bytes.count, checksum: record.value.withUnsafeBytes { CRC32C.of($0) })
                )
                bytes.append(contentsOf: record.value)
            case .remove(let key):
                bytes.append(remove)
                append(key, to: &bytes)
            }
        }
        var head: [UInt8] = []
        append(UInt32(truncatingIfNeeded: size), to: &head)
        append(
            bytes.withUnsafeBytes { CRC32C.of(UnsafeRawBufferPointer(rebasing: $0[frameHeaderBytes...])) },
            to: &head
        )
        append(head.withUnsafeBytes { CRC32C.of($0) }, to: &head)
        bytes.replaceSubrange(..<frameHeaderBytes, with: head)
        return bytes
    }

    private static func append(_ key: StoredRecord.Key, to bytes: inout [UInt8]) {
        bytes.append(key.kind)
        append(key.number, to: &bytes)
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
