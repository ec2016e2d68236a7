import CommandSupport
import Measuring

/// Records round trips, one after the other, until a repetition is over.
struct RoundTrips: Sendable {
    /// The length of the first part of a repetition, in nanoseconds. It does not count, because caches have to be
    /// filled again.
    private static let warmup: Int64 = 30_000_000

    private(set) var message: NumberedMessage
    private var histogram = Histogram()
    private var number = 0
    private var before: Int64
    private let begin: Int64
    private let end: Int64

    /// Starts a repetition now.
    init(size: Int, nanoseconds: Int64) {
        message = NumberedMessage(size: size)
        before = Clocks.monotonic()
        begin = before + Self.warmup
        end = begin + nanoseconds
        message.setNumber(0)
    }

    /// Checks the answer to ``message`` and numbers the next message. Returns `false` when the repetition is over.
    @inline(__always)
    mutating func answered(_ answer: UnsafeRawBufferPointer) throws -> Bool {
        guard message.equals(answer) else {
            throw WrongResult(description: "answer \(number) differs from the message")
        }
        let now = Clocks.monotonic()
        if now >= begin { histogram.record(now - before) }
        before = now
        number += 1
        message.setNumber(number)
        return now < end
    }

    /// The median, in microseconds.
    func median() throws -> Double {
        guard let median = histogram.median else {
            throw WrongResult(description: "only \(histogram.count) round trips in a repetition")
        }
        return Double(median) / 1000
    }
}
