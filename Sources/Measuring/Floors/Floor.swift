import CommandSupport
import Foundation
import Synchronization

/// The bare round trips with which transports are compared. Each makes only the necessary system calls. A transport that
/// waits in the same way cannot be faster.
package enum FloorKind: String, Sendable, Hashable, CaseIterable {
    /// Two threads that block in recv on a TCP connection over loopback.
    case tcpBlocking = "tcp-blocking"
    /// Two threads that wait in epoll for a TCP connection over loopback (in poll(2), on systems without epoll).
    case tcpEpoll = "tcp-epoll"
    /// Two threads that block in recv on UDP sockets over loopback.
    case udpBlocking = "udp-blocking"
    /// Two threads that wait in epoll for UDP sockets over loopback.
    case udpEpoll = "udp-epoll"
    /// Two threads that wake each other through eventfds, without a network and without bytes.
    case wakeUp = "wake-up"

    /// The most bytes it can carry; a UDP datagram over IPv4 holds 65507 (RFC 768, RFC 791).
    package var maximumSize: Int {
        switch self {
        case .udpBlocking, .udpEpoll: 65_507
        case .tcpBlocking, .tcpEpoll: 1 << 24
        case .wakeUp: 8
        }
    }

    /// Sets up sockets and the answering thread for round trips of `bytes` bytes each way. The answering thread stays on
    /// `farCore`, if one is given.
    package func open(bytes: Int, farCore: Int? = nil) throws(SystemFailure) -> any Floor {
        guard bytes >= 1, bytes <= maximumSize else {
            throw SystemFailure("message of \(bytes) bytes is over the limit of \(maximumSize) of \(rawValue)")
        }
        switch self {
        case .tcpBlocking: return try SocketFloor(.stream(), bytes: bytes, polls: false, farCore)
        case .tcpEpoll: return try SocketFloor(.stream(), bytes: bytes, polls: true, farCore)
        case .udpBlocking: return try SocketFloor(.datagram(), bytes: bytes, polls: false, farCore)
        case .udpEpoll: return try SocketFloor(.datagram(), bytes: bytes, polls: true, farCore)
        case .wakeUp: return try WakeUpFloor(farCore)
        }
    }
}

/// A floor that is set up once and measured in slices. Its deinitializer closes it. One thread at a time may use it.
package protocol Floor: AnyObject {
    /// Makes the round trips of a slice, and records the time of each.
    func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure)
}

/// The extent of a slice: it ends after `rounds` round trips, or after the first that ends later than `deadline`.
package struct FloorSlice: Sendable, Hashable {
    var rounds = Int.max
    /// On the monotonic clock, in nanoseconds.
    var deadline = Int64.max

    /// Records the times of round trips. `trip` makes one, and returns `false` with `errno` set if it failed.
    @inline(__always)
    func run(into histogram: inout Histogram, _ trip: () -> Bool) throws(SystemFailure) {
        var before = Clocks.monotonic()
        for _ in 0..<rounds {
            guard trip() else { throw SystemFailure("no answer from the floor's other thread", errno: errno) }
            let after = Clocks.monotonic()
            histogram.record(after - before)
            if after >= deadline { return }
            before = after
        }
    }
}

/// A flag that one thread sets and another reads.
package final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    var isRaised: Bool { value.load(ordering: .relaxed) }

    func raise() { value.store(true, ordering: .relaxed) }
}

/// Floors that are set up once and then measured in slices, interleaved with the transports. Slices of one repeat are kept
/// together, so that each repeat of a transport is compared with the floor of the same repeat.
package final class FloorBench {
    /// One floor at one size.
    package struct Key: Sendable, Hashable {
        package var kind: FloorKind
        package var size: Int

        package init(kind: FloorKind, size: Int) {
            (self.kind, self.size) = (kind, size)
        }
    }

    private struct Entry {
        var floor: (any Floor)?
        var reason: String?
        var total = Histogram()
        /// Median of each repeat in microseconds; `nil` where too few round trips were made.
        var medians: [Double?] = []
    }

    /// In the order of the report.
    package let keys: [Key]
    private var entries: [Key: Entry] = [:]
    private var scratch = Histogram()

    /// The longest time that passes before an interruption is noticed, in nanoseconds.
    private static let longestSlice: Int64 = 200_000_000
    /// The round trips of each slice that are not recorded, because they only warm caches and branch predictors.
    private static let unrecorded = 20

    private let placement: ThreadPlacement?

    /// Sets up the floors of `kinds` for each of `sizes`. The wake-up floor has one size only. The result of a floor that
    /// cannot be set up has the reason. With a placement, the two threads of each floor stay on its cores.
    package init(kinds: [FloorKind], sizes: [Int], placement: ThreadPlacement? = nil) {
        self.placement = placement
        keys = Self.keys(kinds, sizes)
        for key in keys {
            do throws(SystemFailure) {
                entries[key] = Entry(floor: try key.kind.open(bytes: key.size, farCore: placement?.far))
            } catch {
                entries[key] = Entry(reason: error.message)
            }
        }
    }

    /// The floors of `kinds` for each of `sizes`.
    package static func keys(_ kinds: [FloorKind], _ sizes: [Int]) -> [Key] {
        let sized = sizes.flatMap { size in kinds.filter { $0 != .wakeUp }.map { Key(kind: $0, size: size) } }
        return kinds.contains(.wakeUp) ? [Key(kind: .wakeUp, size: FloorKind.wakeUp.maximumSize)] + sized : sized
    }

    /// Measures one repeat of one floor: for `duration`, or `rounds` round trips, whichever ends first. Ends early when
    /// interrupted.
    package func measure(_ key: Key, duration: Duration, rounds: Int = .max) {
        guard var entry = entries[key], let floor = entry.floor else { return }
        scratch.reset()
        let cores = placement.flatMap { _ in CoreMask.ofThisThread() }
        if let placement { CoreMask(only: placement.near).applyToThisThread() }
        defer { cores?.applyToThisThread() }
        do throws(SystemFailure) {
            var warmup = Histogram()
            try floor.run(FloorSlice(rounds: Self.unrecorded), into: &warmup)
            let end = Clocks.now().advanced(by: duration).nanoseconds
            var now = Clocks.monotonic()
            while now < end, scratch.count < rounds, !Interruption.isRequested {
                let deadline = min(end, now + Self.longestSlice)
                try floor.run(FloorSlice(rounds: rounds - scratch.count, deadline: deadline), into: &scratch)
                now = Clocks.monotonic()
            }
        } catch {
            entry.floor = nil
            entry.reason = error.message
        }
        entry.total.merge(scratch)
        entry.medians.append(scratch.median.map { Double($0) / 1000 })
        entries[key] = entry
    }

    /// The results so far.
    package var results: [FloorResult] { keys.compactMap(result) }

    /// The result so far of one floor; `nil` if there is no such floor.
    package func result(_ key: Key) -> FloorResult? {
        entries[key].map { entry in
            var result = FloorResult(
                kind: key.kind,
                size: key.size,
                rtt: Latency(entry.total),
                p50Spread: RepeatStatistics(entry.medians.compactMap { $0 }),
                reason: entry.reason,
                repeats: [.p50: entry.medians]
            )
            // As in the rows, it is the median of the repeats.
            if let spread = result.p50Spread { result.rtt.p50 = spread.median }
            return result
        }
    }
}
