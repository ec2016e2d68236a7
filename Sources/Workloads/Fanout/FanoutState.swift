import CommandSupport
import Measuring
import SocketIO
import TransportAPI
import Transports

/// The state of ``FanoutClients`` on their loop.
final class FanoutState {
    /// The longest time without a check for cancellation, in nanoseconds.
    private static let step: Int64 = 50_000_000

    package let message: FanoutMessage
    package let isReliable: Bool
    package var counts: FanoutCounts
    /// Whether the publisher waits until the connection takes a message.
    var isSending = false
    package private(set) var failure: String?
    /// How long the messages of the open loop took to send, in nanoseconds. Its rate is that of the sending.
    var publishingTime: Int64 = 0
    /// When the last delivery came. The wait for lost ones is no part of the rate of the closed loop.
    private(set) var lastDelivery = Clocks.monotonic()
    /// When the last delivery came, or the missing ones were given up.
    private var lastProgress = Clocks.monotonic()
    private let timeout: Int64
    private let loop: EventLoop
    private var work: Task<Void, Never>?
    private var waiter: (isMet: (FanoutCounts) -> Bool, continuation: UnsafeContinuation<Void, Never>)?

    package init(_ message: FanoutMessage, subscribers: Int, isReliable: Bool, timeout: Int64, on loop: EventLoop) {
        (self.message, self.isReliable, self.timeout, self.loop) = (message, isReliable, timeout, loop)
        counts = FanoutCounts(subscribers: subscribers)
    }

    /// Begins a slice, whose publishing task a failure cancels.
    package func begin(_ work: Task<Void, Never>) {
        self.work = work
        publishingTime = 0
        lastDelivery = Clocks.monotonic()
        lastProgress = lastDelivery
        if failure != nil { work.cancel() }
    }

    /// Counts a message that a subscriber has received.
    package func take(_ payload: Payload, _ subscriber: Int) {
        let now = Clocks.monotonic()
        guard counts.take(message.number(of: payload), subscriber, at: now) else { return }
        (lastDelivery, lastProgress) = (now, now)
        if waiter?.isMet(counts) == true { wake() }
    }

    package func fail(_ sentence: String) {
        if failure == nil { failure = sentence }
        work?.cancel()
        wake()
    }

    /// Waits until a condition holds, the missing deliveries count as lost, or the task is cancelled.
    package nonisolated(nonsending) func wait(until isMet: @escaping (FanoutCounts) -> Bool) async {
        guard !isMet(counts), failure == nil, !Task.isCancelled else { return }
        await withUnsafeContinuation { waiter = (isMet, $0) }
    }

    /// Waits until `time`, or until the task is cancelled.
    package nonisolated(nonsending) func pause(until time: Int64) async {
        while case let now = Clocks.monotonic(), now < time, !Task.isCancelled {
            let next = min(time, now + Self.step)
            await withUnsafeContinuation { continuation in
                _ = loop.schedule(at: next) { continuation.resume() }
            }
        }
    }

    /// Ends waits without progress, until the task is cancelled. Four checks in a row must find none, so that a machine that was
    /// suspended for this time loses nothing.
    package nonisolated(nonsending) func watch() async {
        var (seen, looks) = (lastProgress, 0)
        while !Task.isCancelled {
            await pause(until: Clocks.monotonic() + timeout / 4)
            guard let oldest = counts.oldestIncomplete, lastProgress == seen else {
                (seen, looks) = (lastProgress, 0)
                continue
            }
            looks += 1
            guard looks >= 4, !Task.isCancelled else { continue }
            looks = 0
            giveUp(oldest)
        }
    }

    /// A reliable connection loses nothing, so a missing delivery is a failure there.
    private func giveUp(_ oldest: (number: UInt64, missing: Int)) {
        counts.loseRest()
        lastProgress = Clocks.monotonic()
        let time = Duration.nanoseconds(timeout).settingText
        if isReliable {
            fail(
                "\(counted(oldest.missing, "subscriber")) did not receive message \(oldest.number), "
                    + "and nothing has arrived for \(time)"
            )
        } else if isSending {
            fail("the publisher could not send a message for \(time)")
        } else {
            wake()
        }
    }

    /// Ends the wait of the publisher.
    package func wake() {
        let woken = waiter
        waiter = nil
        woken?.continuation.resume()
    }
}
