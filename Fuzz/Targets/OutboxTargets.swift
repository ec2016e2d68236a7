import TransportAPI

@testable import OutboxStores

/// Reads the file of a store, in pieces of any size and with checksums that fit or not. What is found must be in the file, and
/// must be all that the bytes before its end contain.
func fuzzOutboxLog(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let (mends, slicing) = (input.flag(), input.choice())
    var file = Array(input.rest)
    // Hardly any input of a fuzzer has the right checksums.
    if mends { mendChecksums(&file) }
    let maximumBytes = 4096
    let contents = readOutboxLog(file, Slicing(slicing), maximumBytes: maximumBytes)
    let whole = readOutboxLog(file, .whole, maximumBytes: maximumBytes)
    switch (contents, whole) {
    case (.failure(let one), .failure(let other)):
        // A problem may be found before the rest of a piece is seen.
        try ensure(one == other, "\(one) in pieces, \(other) whole")
    case (.success(let one), .success(let other)):
        try ensure(one.records == other.records && one.end == other.end, "pieces change the records")
        try ensure(one.end <= file.count, "the end \(one.end) is after that of the file")
        try ensure(one.index.bytes <= maximumBytes, "\(one.index.bytes) bytes")
        try ensure(one.index.entries.count == one.records.count, "places and records differ")
        for record in one.records {
            let entry = one.index.entries[record.key]
            try ensure(entry?.length == record.value.count, "a record has another length than its place")
            let start = entry?.place.offset ?? 0
            try ensure(start + record.value.count <= one.end, "a place is after the end")
            try ensure(Array(file[start..<start + record.value.count]) == record.value, "a place has another value")
        }
        let cut = readOutboxLog(Array(file[..<one.end]), .whole, maximumBytes: maximumBytes)
        try ensure((try? cut.get())?.records == one.records, "the file without its torn end has other records")
        try writeAgain(one)
    default: throw FuzzFailure(description: "pieces decide whether there is a problem")
    }
}

/// Reads a file in slices.
private func readOutboxLog(
    _ file: [UInt8],
    _ slicing: Slicing,
    maximumBytes: Int
) -> Result<OutboxLogReader.Contents, OutboxLogReader.Problem> {
    var (reader, slicing) = (OutboxLogReader(maximumBytes: maximumBytes), slicing)
    for slice in slicing.slices(of: file[...]) {
        let problem = slice.withUnsafeBytes { bytes -> OutboxLogReader.Problem? in
            do throws(OutboxLogReader.Problem) {
                try reader.read(bytes)
                return nil
            } catch {
                return error
            }
        }
        if let problem { return .failure(problem) }
    }
    return Result { () throws(OutboxLogReader.Problem) in try reader.finish() }
}

/// Writes the records as a new file, which must have them.
private func writeAgain(_ contents: OutboxLogReader.Contents) throws {
    var places: [OutboxLog.Place] = []
    var file = OutboxLog.header
    if !contents.records.isEmpty {
        file += OutboxLog.frame(contents.records.map { .put($0) }, at: file.count, places: &places)
    }
    let again = readOutboxLog(file, .whole, maximumBytes: 4096)
    try ensure((try? again.get())?.records == contents.records, "the records change when they are written again")
}

/// Replaces the header, and the checksums of the frames as far as their lengths fit.
private func mendChecksums(_ file: inout [UInt8]) {
    guard file.count >= OutboxLog.headerBytes else { return }
    file.replaceSubrange(..<OutboxLog.headerBytes, with: OutboxLog.header)
    var start = OutboxLog.headerBytes
    while file.count - start >= OutboxLog.frameHeaderBytes {
        // Two bytes suffice for the lengths of a fuzzer.
        file[start] = 0
        file[start + 1] = 0
        let size = Int(file[start + 2]) << 8 | Int(file[start + 3])
        let body = start + OutboxLog.frameHeaderBytes
        put(file[body..<min(body + size, file.count)], at: start + 4, in: &file)
        put(file[start..<start + 8], at: start + 8, in: &file)
        start = body + size
    }
}

private func put(_ bytes: ArraySlice<UInt8>, at position: Int, in file: inout [UInt8]) {
    let checksum = bytes.withUnsafeBytes { CRC32C.of($0) }
    withUnsafeBytes(of: checksum.bigEndian) { file.replaceSubrange(position..<position + 4, with: $0) }
}
