import Testing

@testable import OutboxStores
@testable import TransportAPI

/// The frames of a log, and the bytes of the whole log.
struct SmallLog {
    var bytes = OutboxLog.header
    /// The offset of the end of each frame, first that of the header.
    var ends = [OutboxLog.headerBytes]
    /// The records after each of them.
    var records: [[StoredRecord]] = [[]]

    init(_ writes: [[StoreChange]]) {
        var model: [StoredRecord.Key: [UInt8]] = [:]
        for changes in writes {
            var places: [OutboxLog.Place] = []
            bytes += OutboxLog.frame(changes, at: bytes.count, places: &places)
            ends.append(bytes.count)
            for change in changes {
                switch change {
                case .put(let record): model[record.key] = record.value
                case .remove(let key): model[key] = nil
                }
            }
            records.append(model.map { StoredRecord($0.key, $0.value) }.sorted { $0.key < $1.key })
        }
    }

    /// Four frames. The third one ends in zeros.
    static let small = SmallLog([
        [put(1, 1, "first")], [put(1, 2, "second"), put(2, 1, "")], [remove(1, 1), put(1, 3, "zeros: \0\0\0")],
        [put(1, 4, "fourth")],
    ])
}

@Suite("The reader of a store's file") struct OutboxLogReaderTests {
    private static func read(
        _ bytes: [UInt8],
        piece: Int = .max,
        maximumBytes: Int = 1 << 20
    ) throws(OutboxLogReader.Problem) -> OutboxLogReader.Contents {
        var reader = OutboxLogReader(maximumBytes: maximumBytes)
        var rest = bytes[...]
        while !rest.isEmpty {
            let slice = Array(rest.prefix(piece))
            var problem: OutboxLogReader.Problem?
            slice.withUnsafeBytes { bytes in
                do throws(OutboxLogReader.Problem) { try reader.read(bytes) } catch { problem = error }
            }
            if let problem { throw problem }
            rest = rest.dropFirst(slice.count)
        }
        return try reader.finish()
    }

    /// Returns the offset of the frame that is reported as damaged; `nil` if none is.
    private static func offsetOfDamage(_ bytes: [UInt8]) -> Int? {
        do throws(OutboxLogReader.Problem) { _ = try read(bytes) } catch {
            if case .damaged(let offset, _) = error { return offset }
        }
        return nil
    }

    @Test("A file has the bytes of Docs/reference/outbox-store.md")
    func documented() {
        let bytes = SmallLog([[put(1, 2, "hi"), remove(1, 1)]]).bytes
        let documented: [UInt8] = [
            0x69, 0x6d, 0x6f, 0x75, 0x74, 0x62, 0x6f, 0x78, 0, 0, 0, 1,
            0, 0, 0, 0x1a, 0xb3, 0x22, 0xe6, 0x11, 0xe6, 0x02, 0x81, 0x98,
            1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0x68, 0x69,
            2, 1, 0, 0, 0, 0, 0, 0, 0, 1,
        ]
        #expect(bytes == documented, "\(bytes.map { String($0, radix: 16) })")
    }

    @Test("Pieces of any size give the same records", arguments: [1, 2, 3, 7, 12, 13, 64, .max])
    func pieces(size: Int) throws {
        let log = SmallLog.small
        let contents = try Self.read(log.bytes, piece: size)
        #expect(contents.records == log.records.last && contents.end == log.bytes.count)
        for record in contents.records {
            let entry = try #require(contents.index.entries[record.key])
            #expect(Array(log.bytes[entry.place.offset..<entry.place.offset + entry.length]) == record.value)
        }
        #expect(contents.index.bytes == contents.records.reduce(0) { $0 + 14 + $1.value.count })
    }

    @Test("A file that was cut at any length has exactly its complete frames")
    func cut() throws {
        let log = SmallLog.small
        for length in 0...log.bytes.count {
            let contents = try Self.read(Array(log.bytes[..<length]))
            let frame = log.ends.lastIndex { $0 <= length }
            #expect(contents.end == frame.map { log.ends[$0] } ?? 0, "\(length)")
            #expect(contents.records == frame.map { log.records[$0] } ?? [], "\(length)")
        }
    }

    @Test("Zeros after the last frame, or in place of it, are its end", arguments: [1, 11, 12, 13, 512, 10_000])
    func zeros(count: Int) throws {
        let log = SmallLog.small
        for frame in log.ends.indices {
            let contents = try Self.read(
                log.bytes[..<log.ends[frame]] + [UInt8](repeating: 0, count: count),
                piece: 100
            )
            #expect(contents.end == log.ends[frame] && contents.records == log.records[frame])
        }
        // A byte after them shows that something is lost.
        guard count >= OutboxLog.frameHeaderBytes else { return }
        let lost = log.bytes + [UInt8](repeating: 0, count: count) + [1]
        #expect(throws: OutboxLogReader.Problem.self) { try Self.read(lost) }
    }

    @Test("A last frame whose last sectors are zeros was torn by a power cut")
    func sectors() throws {
        let value = String(repeating: "v", count: 3000)
        let log = SmallLog([[put(1, 1, "first")], [put(1, 2, value)]])
        for written in [512, 1024, 2560] {
            var bytes = log.bytes
            for index in written..<bytes.count { bytes[index] = 0 }
            for tail in [0, 5, 5000] {
                let contents = try Self.read(bytes + [UInt8](repeating: 0, count: tail))
                #expect(contents.end == log.ends[1] && contents.records == log.records[1])
            }
            // A frame after it would be lost.
            var places: [OutboxLog.Place] = []
            let next = OutboxLog.frame([put(1, 3, "")], at: bytes.count, places: &places)
            #expect(throws: OutboxLogReader.Problem.self) { try Self.read(bytes + next) }
        }
    }

    @Test("A damaged byte in any frame is reported with the offset of the frame")
    func damage() throws {
        let log = SmallLog.small
        for index in OutboxLog.headerBytes..<log.bytes.count {
            let frame = try #require(log.ends.last { $0 <= index })
            for bit in [UInt8(1), 0x10, 0x80, 0xff] {
                var bytes = log.bytes
                bytes[index] ^= bit
                #expect(Self.offsetOfDamage(bytes) == frame, "byte \(index)")
            }
        }
    }

    @Test("Another magic and another version are refused")
    func header() {
        for index in 0..<8 {
            var bytes = SmallLog.small.bytes
            bytes[index] ^= 0x20
            #expect(throws: OutboxLogReader.Problem.foreign) { try Self.read(bytes) }
            #expect(throws: OutboxLogReader.Problem.foreign) { try Self.read(Array(bytes[...index])) }
        }
        var bytes = SmallLog.small.bytes
        bytes[11] = 2
        #expect(throws: OutboxLogReader.Problem.version(2)) { try Self.read(bytes) }
    }

    /// A frame of any body whose checksums are right.
    private static func frame(_ body: [UInt8], size: UInt32? = nil) -> [UInt8] {
        func bytes(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
        let head = bytes(size ?? UInt32(body.count)) + bytes(body.withUnsafeBytes { CRC32C.of($0) })
        return head + bytes(head.withUnsafeBytes { CRC32C.of($0) }) + body
    }

    @Test("A length beyond the limit is refused before any memory is taken", arguments: [1_048_577, UInt32.max])
    func lyingLength(size: UInt32) {
        let bytes = OutboxLog.header + Self.frame([1], size: size)
        #expect(throws: OutboxLogReader.Problem.frameTooLarge(offset: 12, bytes: Int(size))) { try Self.read(bytes) }
    }

    @Test("A frame with right checksums and wrong changes is damaged")
    func malformed() {
        let key: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0, 1]
        let bodies: [[UInt8]] = [
            [], [0], [1], [2], [3] + key, [1] + key, [1] + key + [0, 0, 0], [1] + key + [0, 0, 0, 1], [2] + key + [2],
            [1] + key + [0xff, 0xff, 0xff, 0xff, 1], [2] + key.dropLast(),
        ]
        for body in bodies {
            #expect(Self.offsetOfDamage(OutboxLog.header + Self.frame(body)) == 12, "\(body)")
        }
    }

    @Test("Records beyond the limit are refused")
    func limit() throws {
        let log = SmallLog([[put(1, 1, "12345")], [put(1, 2, "12345")], [remove(1, 1)]])
        #expect(throws: OutboxLogReader.Problem.recordsTooLarge(38)) { try Self.read(log.bytes, maximumBytes: 37) }
        #expect(try Self.read(log.bytes, maximumBytes: 38).records.count == 1)
    }
}
