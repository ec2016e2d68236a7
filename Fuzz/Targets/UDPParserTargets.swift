import TransportAPI

@testable import Transports

/// The parts of a datagram, each from the same bytes; what was read is written and read again.
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
    // The longest first run is not told apart from a longer one, and stands alone.
    if news.runs[0].upperBound - news.runs[0].lowerBound >= UInt64(UInt32.max) { written.runs = [news.runs[0]] }
    let read = Acknowledgement(output, at: &offset)
    try ensure(read == written && offset == output.count, "\(news) is read as \(read as Any)")
}

/// Runs of numbers against a set.
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

/// The fragments of a message of 4 KiB at most: whatever order they come in, they give what was cut.
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

/// The accepting side: nothing forged costs memory or is answered with more than came.
func fuzzUDPListener(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var random = RandomSource.seeded(9)
    var configuration = UDPConfiguration(isPlain: input.flag(), maximumSessions: 3)
    configuration.acceptsReliable = input.flag()
    var listener = try UDPListenerCore(configuration, random: &random)
    var (now, sessions) = (Instant.zero, Set<UInt64>())
    var reply = ByteBuffer()
    while let what = input.next() {
        let address = [what & 3]
        if what & 0x70 == 0x70 { now = now.advanced(by: .seconds(Int(what & 15) * 10)) }
        if what & 0x70 == 0x60, let session = sessions.min() {
            sessions.remove(session)
            listener.remove(session, now: now)
        }
        var datagram = ByteBuffer()
        if what & 0x80 != 0, let cookie = reply.integer(at: Datagram.identifiedSize, as: UInt64.self) {
            // An honest client, which returns its cookie.
            let nonce = reply.integer(at: Datagram.wordSize, as: UInt64.self) ?? 0
            Datagram.append(.confirm, nonce, cookie, to: &datagram)
        } else {
            datagram.append(contentsOf: input.record())
        }
        let size = datagram.count
        let decision = listener.receive(datagram, from: address, now: now, random: &random, reply: &reply)
        try ensure(datagram.count == size, "the datagram has changed")
        switch decision {
        case .reply: try ensure(reply.count > 0 && reply.count < size, "\(reply.count) bytes answer \(size)")
        case .accept(let core):
            var run = CoreRun(core, inputLimit: 0)
            try run.feed(datagram.bytes(at: 0, count: size) ?? [])
            try ensure(run.events.first == .opened, "an accepted session does not open")
            sessions.insert(core.connectionID)
        case .session(let session): try ensure(sessions.contains(session), "a session that is none")
        case .drop: break
        }
        try ensure(listener.sessionCount == sessions.count && sessions.count <= 3, "\(listener.sessionCount)")
    }
}
