import TransportAPI

@testable import Protocols
@testable import Transports

/// Reads each part of a datagram from the same bytes, then writes it and reads it again.
func fuzzUDPDatagrams(_ bytes: [UInt8]) throws {
    var buffer = ByteBuffer()
    buffer.append(contentsOf: bytes)
    if let kind = Datagram.kind(of: buffer) {
        try ensure(Datagram.identifier(of: buffer) != nil, "\(kind) has no identifier")
    }
    if let terms = ReliableTerms(buffer, at: 0) {
        var output = ByteBuffer()
        terms.append(to: &output)
        try ensure(ReliableTerms(output, at: 0) == terms, "\(terms) are written otherwise")
    }
    var offset = 0
    if let news = Acknowledgement(buffer, at: &offset) {
        try ensure(offset <= bytes.count && news.runs.count <= ReceivedPackets.maximumRanges, "\(news)")
        try checkWriting(news)
    }
    try checkRanges(bytes)
    try checkFragments(bytes)
}

private func checkWriting(_ news: Acknowledgement) throws {
    var output = ByteBuffer()
    _ = ReliableFrame.append(
        acknowledgementOf: news.runs.reversed()[...],
        delay: news.delay,
        credit: news.credit,
        room: ReliableSession.packetSize,
        to: &output
    )
    var offset = 1
    var written = news
    // A first run of the greatest length may be longer in fact, and is written alone.
    if news.runs[0].upperBound - news.runs[0].lowerBound >= UInt64(UInt32.max) { written.runs = [news.runs[0]] }
    let read = Acknowledgement(output, at: &offset)
    try ensure(read == written && offset == output.count, "\(news) is read as \(read as Any)")
}

/// Compares runs of numbers with a set.
private func checkRanges(_ bytes: [UInt8]) throws {
    var ranges = NumberRanges()
    var set: Set<UInt64> = []
    for byte in bytes.prefix(100) {
        let number = UInt64(byte & 63)
        try ensure(ranges.insert(number) == set.insert(number).inserted, "\(number) in \(ranges.ranges)")
    }
    try ensure(set == Set(ranges.ranges.flatMap { Array($0) }), "\(ranges.ranges) for \(set)")
    let ordered = zip(ranges.ranges, ranges.ranges.dropFirst()).allSatisfy { $0.upperBound + 1 < $1.lowerBound }
    try ensure(ordered, "\(ranges.ranges) could be fewer")
}

/// Checks that the fragments of a message of at most 4 KiB give that message, in any order.
private func checkFragments(_ bytes: [UInt8]) throws {
    guard bytes.count > 2 else { return }
    let whole = (0..<(1 + Int(bytes[0]) * 16)).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    var fragments = Fragments(total: whole.count)
    for pair in bytes.dropFirst().prefix(64) {
        let start = min(Int(pair >> 4) * 256, whole.count)
        let end = min(start + Int(pair & 15) * 128, whole.count)
        do throws(TransportError) {
            try fragments.insert(Array(whole[start..<end]), at: start, of: whole.count)
        } catch {
            try ensure(error.code == .protocolViolation, "\(error)")
        }
        guard !fragments.isComplete else {
            try ensure(fragments.joined() == whole, "the message has changed")
            return
        }
    }
}
