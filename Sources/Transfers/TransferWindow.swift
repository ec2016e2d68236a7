import Primitives
import TransportAPI

/// Limits the bytes in flight, so that transfers delay the other messages of a connection only a little.
///
/// The round trip of a chunk shows how long its bytes waited in queues on the way: it is longer than the shortest one by
/// that time. The window grows while this delay is below the target and shrinks above it, the idea of LEDBAT (RFC 6817). The
/// delay counts, and not lost packets, because a queue is full long before it drops one. Every fifteen seconds or sixty round
/// trips the window is small for two of them, so that the shortest one is measured without its own bytes (the slowdown of LEDBAT++).
///
/// A value without a clock.
package struct TransferWindow: Sendable {
    private enum Phase: Sendable {
        /// The window doubles with each round trip, until a delay is seen or it has this size.
        case starting(until: Int)
        case steady
        /// The window is small until this time, and has this size after that.
        case measuring(until: Instant?, then: Int)
    }

    /// The smallest window, which lets two small chunks be in flight.
    static let smallest = 2048
    private static let first = 4096
    private static let measuringTime = Duration.seconds(15)
    /// The delay is the shortest of so many samples, because a single one may have waited for something else.
    private static let filterLength = 4

    /// The bytes that may be in flight.
    package private(set) var size = first
    /// The bytes in flight.
    package private(set) var inFlight = 0
    private let target: Double
    private let largest: Int
    private var phase = Phase.starting(until: .max)
    /// The shortest round trips of this period and the one before it, in seconds.
    private var shortest: (current: Double?, former: Double?)
    private var recent: [Double] = []
    private var nextMeasuring: Instant?
    /// The window shrinks by a half once per round trip at most.
    private var mayHalve = Instant.zero

    package init(target: Duration, largest: Int) {
        self.target = max(target / .seconds(1), 0.001)
        self.largest = max(largest, Self.smallest)
    }

    /// How many bytes the next chunk has. Several are in flight, so that each acknowledgement lets one go, and a chunk itself
    /// delays a message by a part of the target only.
    package var chunkSize: Int {
        let base = min(shortest.current ?? .infinity, shortest.former ?? .infinity)
        let perSecond = base < .infinity ? Double(size) / base : Double(size)
        return min(max(min(size / 8, Int(perSecond * target / 4)), 1024), 32 << 10)
    }

    /// Whether a chunk of this size may go. One always may, so that nothing waits forever.
    package func hasRoom(for count: Int) -> Bool { inFlight == 0 || inFlight + count <= size }

    package mutating func sent(_ count: Int) { inFlight += count }

    /// Bytes are not in flight any more, and nothing is known of their round trip.
    package mutating func forget(_ count: Int) { inFlight = max(0, inFlight - count) }

    /// The connection is another one.
    package mutating func reconnected() {
        (size, phase, shortest, recent, nextMeasuring) = (Self.first, .starting(until: .max), (nil, nil), [], nil)
    }

    /// Bytes have arrived. Their acknowledgement came this time after the last of them was sent.
    package mutating func acknowledged(_ count: Int, after time: Duration, at now: Instant) {
        let wasLimited = inFlight + chunkSize > size
        forget(count)
        let sample = max(time / .seconds(1), 0.000_001)
        shortest.current = min(shortest.current ?? sample, sample)
        recent.append(sample)
        if recent.count > Self.filterLength { recent.removeFirst() }
        let base = min(shortest.current ?? sample, shortest.former ?? sample)
        let delay = (recent.min() ?? sample) - base
        adapt(count, base, delay, wasLimited, now)
    }

    private mutating func adapt(_ count: Int, _ base: Double, _ delay: Double, _ wasLimited: Bool, _ now: Instant) {
        switch phase {
        case .measuring(let until, let size):
            // The bytes that were in flight before have left when no more than a small window is.
            guard let until else {
                if inFlight <= Self.smallest {
                    shortest = (nil, nil)
                    recent = []
                    phase = .measuring(until: now.advanced(by: .seconds(2 * base)), then: size)
                }
                return
            }
            guard now >= until, shortest.current != nil else { return }
            // Not at once, because a burst would wait.
            phase = .starting(until: size)
        case .starting(let end) where delay < target / 2 && size < end:
            if wasLimited { grow(by: count) }
        case .starting:
            phase = .steady
            nextMeasuring = now.advanced(by: max(Self.measuringTime, .seconds(60 * base)))
        case .steady:
            if let next = nextMeasuring, now >= next, size > 4 * Self.smallest || delay > target {
                phase = .measuring(until: nil, then: size)
                size = Self.smallest
                return
            }
            let distance = min(1, max(-1, (target - delay) / target))
            if distance > 0 {
                if wasLimited { grow(by: Int(Double(count) * 0.1 * distance)) }
            } else if delay > 4 * target {
                guard now >= mayHalve else { return }
                mayHalve = now.advanced(by: .seconds(base + delay))
                size = max(Self.smallest, size / 2)
            } else {
                size = max(Self.smallest, size - Int(Double(count) * 0.2 * -distance))
            }
        }
    }

    private mutating func grow(by count: Int) { size = min(largest, size + max(1, count)) }
}
