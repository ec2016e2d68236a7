import TransportAPI

/// Reads the file of a ``FileOutboxStore``. It is a value without I/O: feed it the file in pieces of any size (``read(_:)``),
/// and then call ``finish()``.
///
/// A killed process leaves the beginning of its last frame, and a power cut may also leave zeros where a frame or its end should
/// be. Such a frame was never confirmed, or not yet synced, so the file ends before it (``Contents/end``). Any other frame that
/// does not fit its checksums is damage, because frames after it could no longer be found, or be believed.
package struct OutboxLogReader {
    /// Why a file is not read.
    package enum Problem: Error, Hashable {
        /// The file begins with something else.
        case foreign
        /// The format has another version.
        case version(UInt32)
        /// There is damage in the frame at this offset.
        case damaged(offset: Int, what: String)
        /// The frame at this offset is larger than a limit allows.
        case frameTooLarge(offset: Int, bytes: Int)
        /// The records have more bytes than a limit allows.
        case recordsTooLarge(Int)
    }

    /// What a file contains.
    package struct Contents {
        /// All records, in the order of their keys.
        package var records: [StoredRecord]
        /// The place of each.
        var index: RecordIndex<OutboxLog.Place>
        /// The offset after the last complete frame. It is 0 if not even the header is complete.
        package var end: Int
    }

    private enum State {
        case header
        case frameHeader
        case body(size: Int, checksum: UInt32)
        /// A frame does not fit its checksum. It is torn if the rest of the file is zeros, and otherwise damaged.
        case zeros(otherwise: Problem)
    }

    /// The writes of a disk are whole sectors of this size, so what a power cut leaves out begins at a multiple of it.
    static let sectorBytes = 512

    /// The most bytes of all records, and those of the changes in a frame.
    private let maximumBytes: Int
    private let maximumFrameBytes: Int
    private var state = State.header
    /// The bytes of the header, the frame header or the body that is not complete yet. It never has more than these.
    private var part: [UInt8] = []
    private var end = 0
    private var index = RecordIndex<OutboxLog.Place>()
    private var values: [StoredRecord.Key: [UInt8]] = [:]

    /// Creates a reader. It never keeps more than `maximumBytes` of records, and as much of a frame.
    package init(maximumBytes: Int) {
        self.maximumBytes = maximumBytes
        maximumFrameBytes = OutboxLogReader.maximumFrameBytes(maximumBytes)
    }

    /// The most bytes of the changes in a frame if records have at most `maximumBytes`: as many, but at most 1 GiB.
    static func maximumFrameBytes(_ maximumBytes: Int) -> Int { min(maximumBytes, 1 << 30) }

    /// Reads the next bytes of the file.
    package mutating func read(_ bytes: UnsafeRawBufferPointer) throws(Problem) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let wanted: Int
            switch state {
            case .header: wanted = OutboxLog.headerBytes
            case .frameHeader: wanted = OutboxLog.frameHeaderBytes
            case .body(let size, _): wanted = size
            case .zeros(let problem):
                guard rest.allSatisfy({ $0 == 0 }) else { throw problem }
                return
            }
            let piece = rest.prefix(wanted - part.count)
            part.append(contentsOf: UnsafeRawBufferPointer(rebasing: piece))
            rest = rest.dropFirst(piece.count)
            if part.count == wanted { try complete() }
        }
    }

    /// Returns what the file contains, after its last byte was read.
    package mutating func finish() throws(Problem) -> Contents {
        if case .header = state, !OutboxLog.header.starts(with: part) { throw .foreign }
        let records = values.map { StoredRecord($0.key, $0.value) }.sorted { $0.key < $1.key }
        return Contents(records: records, index: index, end: end)
    }

    private mutating func complete() throws(Problem) {
        let next: State
        switch state {
        case .header:
            guard part.starts(with: OutboxLog.magic) else { throw .foreign }
            let version: UInt32 = number(at: OutboxLog.magic.count)
            guard version == OutboxLog.version else { throw .version(version) }
            end = OutboxLog.headerBytes
            next = .frameHeader
        case .frameHeader:
            next = try frame()
        case .body(_, let checksum):
            guard part.withUnsafeBytes({ CRC32C.of($0) }) == checksum else {
                let start = end + OutboxLog.frameHeaderBytes
                next = try tornOrDamaged(from: start, "its changes do not fit their checksum")
                break
            }
            try apply()
            end += OutboxLog.frameHeaderBytes + part.count
            next = .frameHeader
        case .zeros: return
        }
        // A large body does not keep its memory.
        part.removeAll(keepingCapacity: part.count <= 1 << 16)
        state = next
    }

    private func frame() throws(Problem) -> State {
        let checksum = part.withUnsafeBytes { CRC32C.of(UnsafeRawBufferPointer(rebasing: $0[..<8])) }
        guard number(at: 8) == checksum else {
            return try tornOrDamaged(from: end, "its length does not fit its checksum")
        }
        let size = Int(number(at: 0) as UInt32)
        guard size > 0 else { throw .damaged(offset: end, what: "it is empty") }
        guard size <= maximumFrameBytes else { throw .frameTooLarge(offset: end, bytes: size) }
        return .body(size: size, checksum: number(at: 4))
    }

    /// Returns the state after a part, with this offset in the file, that does not fit its checksum.
    private func tornOrDamaged(from start: Int, _ what: String) throws(Problem) -> State {
        let problem = Problem.damaged(offset: end, what: what)
        let written = part.lastIndex { $0 != 0 }.map { start + $0 + 1 } ?? end
        let firstZeros = written == end ? end : (written + Self.sectorBytes - 1) / Self.sectorBytes * Self.sectorBytes
        guard firstZeros < start + part.count else { throw problem }
        return .zeros(otherwise: problem)
    }

    /// Makes the changes of a frame.
    private mutating func apply() throws(Problem) {
        let start = end + OutboxLog.frameHeaderBytes
        let problem = Problem.damaged(offset: end, what: "its changes are not of this format")
        var position = 0
        while position < part.count {
            let (change, left) = (part[position], part.count - position)
            guard left >= OutboxLog.removeBytes else { throw problem }
            let key = StoredRecord.Key(kind: part[position + 1], number: number(at: position + 2))
            switch change {
            case OutboxLog.put:
                guard left >= OutboxLog.putBytes else { throw problem }
                let length = Int(number(at: position + 10) as UInt32)
                guard length <= left - OutboxLog.putBytes else { throw problem }
                position += OutboxLog.putBytes
                let value = Array(part[position..<position + length])
                let checksum = value.withUnsafeBytes { CRC32C.of($0) }
                index.put(key, length: length, at: OutboxLog.Place(offset: start + position, checksum: checksum))
                values[key] = value
                position += length
            case OutboxLog.remove:
                index.remove(key)
                values[key] = nil
                position += OutboxLog.removeBytes
            default: throw problem
            }
        }
        guard index.bytes <= maximumBytes else { throw .recordsTooLarge(index.bytes) }
    }

    private func number<Number: FixedWidthInteger>(at position: Int) -> Number {
        part.withUnsafeBytes { Number(bigEndian: $0.loadUnaligned(fromByteOffset: position, as: Number.self)) }
    }
}
