import TransportAPI

/// Bytes of one transport, counted by its links and by the kernel.
struct LinkCosts: Sendable {
    /// What opening a link costs.
    var handshake: Handshake?
    /// Bytes of all layers and both directions that a day of one beat each three minutes takes; `nil` without a ping.
    var keepaliveBytesPerDay: Double?

    private var messages: UInt64 = 0
    private var bytes: UInt64 = 0
    private var headers = 0.0
    private var hasHeaders = true

    private static let samples = 5
    /// Beats a day at the classic three minutes.
    private static let beats = 480.0

    /// Opens and closes a few links, pinging over each while nothing else goes on.
    @concurrent
    static func measure(_ transport: any Transport) async throws(TransportError) -> LinkCosts {
        var costs = LinkCosts()
        var times: [Double] = []
        var roundTrips: [Double] = []
        for _ in 0..<samples {
            let link = try await transport.connect(timeout: .seconds(5))
            let opened = await link.statistics()
            times.append(Double(opened.handshakeDuration.wholeNanoseconds) / 1e6)
            costs.handshake = Handshake(
                milliseconds: 0,
                bytes: Double(opened.handshakeBytes),
                roundTrips: opened.handshakeRoundTrips
            )
            if link.capabilities.hasNativePing {
                _ = try await link.ping()
                let after = await link.statistics()
                roundTrips.append(Double(total(after) - total(opened)))
            }
            await link.close()
        }
        costs.handshake?.milliseconds = RepeatStatistics(times)?.median ?? 0
        costs.keepaliveBytesPerDay = RepeatStatistics(roundTrips).map { $0.median * beats }
        return costs
    }

    private static func total(_ statistics: LinkStatistics) -> UInt64 {
        statistics.bytesSent + statistics.bytesReceived + (statistics.headerBytes ?? 0)
    }

    /// Adds what the links have counted during a slice.
    mutating func add(from before: [LinkStatistics], to after: [LinkStatistics]) {
        for (before, after) in zip(before, after) {
            messages += after.messagesSent - before.messagesSent
            bytes += after.bytesSent - before.bytesSent
            guard let headersAfter = after.headerBytes, let sent = after.segmentsSent,
                let received = after.segmentsReceived,
                let sentBefore = before.segmentsSent, sent + received > 0
            else {
                hasHeaders = false
                continue
            }
            headers += Double(headersAfter) / Double(sent + received) * Double(sent - sentBefore)
        }
    }

    /// The bytes of one message on its way there.
    func perMessage(text: Int, encoded: Int) -> BytesPerMessage? {
        guard messages > 0 else { return nil }
        let count = Double(messages)
        return BytesPerMessage(
            payload: Double(text),
            codec: Double(encoded - text),
            framing: Double(bytes) / count - Double(encoded),
            transportIP: hasHeaders ? headers / count : nil
        )
    }
}
