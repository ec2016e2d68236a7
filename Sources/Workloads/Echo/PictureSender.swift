import CommandSupport
import Measuring
import SocketIO
import TransportAPI

/// Sends one picture after the other over a connection, as an app does, and counts the pieces that the server sends back.
/// Lives on the loop of the client.
///
/// A picture is cut into pieces, so that messages can go between them. `send` waits while the buffer of the connection is
/// full. At most ``window`` bytes of pieces wait for their echo, which is less than a server buffers for one client. So the
/// memory of both sides is bounded.
package final class PictureSender {
    /// The connection of a picture.
    package struct Plan: Sendable {
        package var connection: any Connection
        /// The size of the picture.
        package var bytes: Int
        /// Whether the messages have the same connection, and its receiver.
        package var isShared: Bool

        package init(connection: any Connection, bytes: Int, isShared: Bool) {
            (self.connection, self.bytes, self.isShared) = (connection, bytes, isShared)
        }
    }

    /// The most bytes of a piece, with its header: a record of TLS.
    private static let pieceSize = 16 << 10
    /// A byte that no encoded message begins with, and the number of the piece.
    package static let headerSize = 9
    private static let marker: UInt8 = 0
    private static let window = 768 << 10
    private static let mostInFlight = 2048

    package let isShared: Bool
    private let connection: any Connection
    private let bytes: Int
    /// The bytes of the picture in a piece.
    private let room: Int
    /// How many pieces a picture has.
    private let count: Int
    private let mostInFlight: Int
    private var piece: [UInt8]
    private var tracker = SequenceTracker()
    private var times = Histogram()
    private var inFlight = 0
    /// Pieces of the present picture.
    private var sent = 0
    private var returned = 0
    private var start: Int64 = 0
    private var end: Int64 = 0
    /// Whether a picture is not whole yet.
    private(set) var isPending = false
    private var isLast = false
    /// When the last message came, or the picture began.
    private var lastProgress: Int64 = 0
    package private(set) var errors = 0
    package private(set) var failure: String?
    /// Wakes ``send(_:)``.
    private var wakeUp: AsyncStream<Void>.Continuation?

    package init(_ plan: Plan) {
        (connection, bytes, isShared) = (plan.connection, plan.bytes, plan.isShared)
        let size = min(Self.pieceSize, connection.capabilities.maximumMessageSize)
        room = max(1, size - Self.headerSize)
        count = (bytes + room - 1) / room
        mostInFlight = min(max(1, Self.window / size), Self.mostInFlight)
        piece = [Self.marker] + [UInt8](repeating: 0, count: Self.headerSize - 1)
        // The bytes of a picture cannot be compressed.
        var random = RandomSource.seeded(1)
        for _ in 0..<room { piece.append(UInt8.random(in: 0...255, using: &random)) }
    }

    /// The accounts of the pieces.
    package var accounts: DeliveryCounts { tracker.accounts }

    /// The times of the pictures since the last call.
    func takeTimes() -> Histogram {
        defer { times.reset() }
        return times
    }

    // MARK: Sending

    /// Begins pictures, the last of which begins before `end`.
    ///
    /// - Returns: the signals for ``send(_:)``.
    package func begin(until end: Int64) -> AsyncStream<Void> {
        let (signals, wakeUp) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        (self.wakeUp, self.end) = (wakeUp, end)
        (isPending, isLast, inFlight) = (true, false, 0)
        next(Clocks.monotonic())
        wakeUp.yield()
        return signals
    }

    /// Lets no further picture begin.
    package func finish() { isLast = true }

    /// Any message from the peer shows that the connection is alive.
    func noteProgress(_ now: Int64) { lastProgress = now }

    private func next(_ now: Int64) { (start, lastProgress, sent, returned) = (now, now, 0, 0) }

    /// Sends pieces until the last picture is whole, or the connection fails.
    package nonisolated(nonsending) func send(_ signals: AsyncStream<Void>) async {
        for await _ in signals {
            while isPending, sent < count, inFlight < mostInFlight, failure == nil, !Task.isCancelled {
                await sendPiece()
            }
            guard isPending, failure == nil, !Task.isCancelled else { return }
        }
    }

    private nonisolated(nonsending) func sendPiece() async {
        let number = tracker.send()
        sent += 1
        inFlight += 1
        for index in 1..<Self.headerSize {
            piece[index] = UInt8(truncatingIfNeeded: number >> UInt64(8 * (Self.headerSize - 1 - index)))
        }
        let outcome = await connection.send(Payload(Array(piece.prefix(size(of: number)))))
        switch outcome {
        case .written, .acknowledged: return
        case .rejected(let error), .unknown(let error):
            // A cancelled piece counts as in flight.
            guard error.code != .cancelled else { return }
            tracker.lose(number)
            fail(error.sentence)
        case .expired:
            tracker.lose(number)
            fail("a piece of the picture expired")
        }
    }

    /// The bytes of a piece with its header. The last piece of a picture has the rest.
    private func size(of number: UInt64) -> Int {
        let index = Int(number % UInt64(count))
        return Self.headerSize + min(room, bytes - index * room)
    }

    // MARK: Receiving

    /// Whether a received message is a piece of a picture.
    static func isPiece(_ bytes: [UInt8]) -> Bool { bytes.first == marker }

    /// Counts a piece that came back.
    package func take(_ bytes: [UInt8], at now: Int64) {
        lastProgress = now
        guard bytes.count >= Self.headerSize, Self.isPiece(bytes) else {
            errors += 1
            return
        }
        let number = bytes[1..<Self.headerSize].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard bytes.count == size(of: number) else {
            errors += 1
            return
        }
        guard case .first = tracker.answer(number) else { return }
        inFlight -= 1
        returned += 1
        if returned == count {
            times.record(now - start)
            if now < end, !isLast { next(now) } else { isPending = false }
        }
        wakeUp?.yield()
    }

    /// Receives the pieces of a connection that only the picture has.
    package nonisolated(nonsending) func receive() async {
        while isPending, failure == nil, !Task.isCancelled {
            do throws(TransportError) {
                guard let payload = try await connection.receive() else {
                    return fail("the server has closed the connection of the picture")
                }
                take(payload.bytes, at: Clocks.monotonic())
            } catch {
                if error.code != .cancelled { fail(error.sentence) }
                return
            }
        }
    }

    // MARK: Ending

    /// Fails if nothing came back for `limit`, in nanoseconds. It checks four times, so that a machine that was suspended
    /// for this time loses nothing.
    package nonisolated(nonsending) func watch(_ limit: Int64, on loop: EventLoop) async {
        var (seen, looks) = (lastProgress, 0)
        while isPending, failure == nil, !Task.isCancelled {
            await loop.pause(.nanoseconds(limit / 4))
            looks = lastProgress == seen ? looks + 1 : 0
            seen = lastProgress
            guard looks >= 4, isPending, !Task.isCancelled else { continue }
            let time = Duration.nanoseconds(limit).settingText
            fail("the server has sent back no piece of the picture for \(time); pieces in flight: \(inFlight)")
        }
    }

    /// Counts pieces still in flight as lost.
    func settle() {
        isPending = false
        let accounts = tracker.accounts
        guard accounts.inFlight > 0 else { return }
        let total = UInt64(accounts.sent)
        for number in total - min(total, 4096)..<total { tracker.lose(number) }
    }

    private func fail(_ sentence: String) {
        errors += 1
        if failure == nil { failure = sentence }
        wakeUp?.yield()
    }
}
