import CommandSupport
import Measuring
import Protocols
import SocketIO
import TransportAPI
import Transports

/// Bytes of one transport, counted by its connections and by the kernel.
struct ConnectionCosts: Sendable {
    /// The cost of opening a connection.
    var handshake: Handshake?
    private var messages: UInt64 = 0
    private var bytes: UInt64 = 0
    private var tls: UInt64 = 0
    private var headers = 0.0
    private var hasHeaders = true
    /// Bytes of all layers and both directions, and the time in which they were counted, in nanoseconds.
    private var whole: UInt64 = 0
    private var time: Int64 = 0

    private static let samples = 5
    static let secondsPerDay = 86_400
    /// The wait for the TCP acknowledgement, which is delayed by up to 40 ms and is a cost of a keepalive on an idle
    /// connection.
    private static let settling = Duration.milliseconds(60)

    /// Opens and closes a few connections.
    @concurrent
    static func measure(_ transport: any Transport, timeout: Duration) async throws(TransportError) -> ConnectionCosts {
        var costs = ConnectionCosts()
        var times: [Double] = []
        for _ in 0..<samples {
            let connection = try await transport.connect(timeout: timeout)
            let opened = await connection.statistics()
            times.append(Double(opened.handshakeDuration.wholeNanoseconds) / 1e6)
            costs.handshake = Handshake(
                milliseconds: 0,
                bytes: Double(opened.handshakeBytes),
                roundTrips: opened.handshakeRoundTrips
            )
            await connection.close()
        }
        costs.handshake?.milliseconds = RepeatStatistics(times)?.median ?? 0
        return costs
    }

    /// Bytes of all layers and both directions in a day with one ping in each keepalive interval of the transport;
    /// `nil` without a ping.
    static func keepaliveBytesPerDay(
        _ transport: any Transport,
        on loop: EventLoop,
        _ limits: EchoBench.Limits
    ) async throws(TransportError) -> Double? {
        try await pingBytes(transport, on: loop, limits).map { bytes in
            bytes * Double(Self.secondsPerDay) * 1e9 / Double(transport.capabilities.keepaliveInterval.wholeNanoseconds)
        }
    }

    /// Bytes of all layers and both directions of one ping on an idle connection; `nil` without a ping.
    @concurrent
    static func pingBytes(
        _ transport: any Transport,
        on loop: EventLoop,
        _ limits: EchoBench.Limits
    ) async throws(TransportError) -> Double? {
        let connection = try await transport.connect(timeout: limits.connect)
        guard connection.capabilities.hasNativePing else {
            await connection.close()
            return nil
        }
        var pings: [Double] = []
        do throws(TransportError) {
            for _ in 0..<samples {
                await loop.pause(settling)
                let before = total(await connection.statistics())
                try await ping(connection, on: loop, limits)
                await loop.pause(settling)
                pings.append(Double(total(await connection.statistics()) - before))
            }
        } catch {
            // A server that does not answer a ping does not answer the close either.
            Task { await connection.close() }
            throw error
        }
        await connection.close()
        return RepeatStatistics(pings)?.median
    }

    /// Sends a ping and waits for its answer. Over an unreliable transport, a lost ping is sent again.
    private static func ping(
        _ connection: any Connection,
        on loop: EventLoop,
        _ limits: EchoBench.Limits
    ) async throws(TransportError) {
        let attempts = connection.capabilities.isReliable ? 1 : 5
        // The limit of one attempt is longer than a round trip.
        let limit = attempts == 1 ? limits.ping : limits.ping / attempts + limits.network.delay * 2
        let sentence = "the server has not answered a ping for \(limits.ping.settingText)"
        for attempt in 1...attempts {
            do throws(TransportError) {
                _ = try await within(limit, on: loop, else: sentence) { () async throws(TransportError) in
                    try await connection.ping()
                }
                return
            } catch {
                guard error.code == .timedOut, attempt < attempts else { throw error }
            }
        }
    }

    /// Bytes of all layers and both directions.
    static func total(_ statistics: ConnectionStatistics) -> UInt64 {
        statistics.bytesSent + statistics.bytesReceived + (statistics.headerBytes ?? 0)
    }

    /// Adds the counts of the connections during a slice of this length, in nanoseconds.
    mutating func add(from before: [ConnectionStatistics], to after: [ConnectionStatistics], in time: Int64) {
        for (before, after) in zip(before, after) {
            whole += Self.total(after) - min(Self.total(after), Self.total(before))
            self.time += time
            messages += after.messagesSent - before.messagesSent
            bytes += after.bytesSent - before.bytesSent
            tls += after.tlsBytesSent - before.tlsBytesSent
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

    /// Bytes of all layers and both directions that one connection costs in a day, if it goes on like in the slices; `nil`
    /// without any, or if the kernel does not count headers.
    var bytesPerDay: Double? {
        guard time > 0, hasHeaders else { return nil }
        return Double(whole) / Double(time) * Double(Self.secondsPerDay) * 1e9
    }

    /// The bytes of one message to the server, whose topic has this many.
    func perMessage(text: Int, encoded: Int, topic: Int) -> BytesPerMessage? {
        guard messages > 0 else { return nil }
        let count = Double(messages)
        return BytesPerMessage(
            payload: Double(text),
            codec: Double(encoded - text),
            framing: Double(bytes - tls) / count - Double(encoded),
            topic: Double(topic),
            tls: Double(tls) / count,
            transportIP: hasHeaders ? headers / count : nil
        )
    }
}
