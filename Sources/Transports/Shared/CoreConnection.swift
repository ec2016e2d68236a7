import Protocols
import SocketIO
import TransportAPI

/// The public face of a driver: the ``Connection`` of every transport that is a protocol core.
///
/// Called on the loop, an operation that need not wait is a plain call; one that must, suspends and is resumed by the loop
/// itself. Called from elsewhere, it borrows the loop while that sleeps, and is posted to it otherwise.
package final class CoreConnection: LocatedConnection {
    package let capabilities: Capabilities
    package let driver: LoopBound<ConnectionDriver>
    private let loop: EventLoop
    /// Whether any message that is sent at once has its outcome.
    private let settlesAtOnce: Bool
    package let peerNetwork: UInt64?

    /// The face of `driver`, which must be open.
    init(_ driver: ConnectionDriver, capabilities: Capabilities) {
        self.driver = LoopBound(living: driver, on: driver.loop)
        loop = driver.loop
        settlesAtOnce = !driver.acknowledges
        self.capabilities = capabilities
        peerNetwork = driver.channel.peer?.network.number
    }

    deinit {
        // Nobody can use the connection any more. A driver that is open says goodbye; one that has ended does nothing.
        loop.execute { [driver] in driver.value.beginClose(.user) }
    }

    package nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        guard let here = driver.here else { return await sendFromElsewhere(payload) }
        if let outcome = sendAtOnce(payload, by: here) {
            here.flushAhead()
            return outcome
        }
        let id = here.waiting.newID()
        return await suspending(on: driver, as: id, #isolation) {
            $0.send(payload, id, $1)
            $0.flushAhead()
        } onCancel: {
            $0.cancelSend($1)
        } elsewhere: {
            await sendFromElsewhere(payload)
        }
    }

    package nonisolated(nonsending) func send(
        _ payload: Payload,
        as name: MessageID,
        isRepeated: Bool
    ) async -> SendOutcome {
        guard capabilities.completesSends else { return isRepeated ? .unknown(.nothingLeft) : await send(payload) }
        let id = name.number | SendID.named
        return await suspending(on: driver, as: id, #isolation) {
            isRepeated ? $0.complete(id, $1) : $0.send(payload, id, $1)
            $0.flushAhead()
        } onCancel: {
            $0.cancelSend($1)
        } elsewhere: {
            await sendFromElsewhere(payload, id, isRepeated: isRepeated)
        }
    }

    /// Sends a message that is not acknowledged, if it need not wait.
    private func sendAtOnce(_ payload: Payload, by driver: ConnectionDriver) -> SendOutcome? {
        settlesAtOnce || !driver.core.acknowledges(payload) ? driver.sendUnlessWaiting(payload) : nil
    }

    package nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? {
        guard let here = driver.here else { return try await receiveElsewhere().get() }
        if let message = here.takeMessage() { return try message.get() }
        let id = here.waiting.newID()
        return try await suspending(on: driver, as: id, #isolation) {
            $0.receive(id, $1)
        } onCancel: {
            $0.cancelReceive($1)
        } elsewhere: {
            await receiveElsewhere()
        }.get()
    }

    package nonisolated(nonsending) func ping() async throws(TransportError) -> Duration {
        guard let id = driver.here?.waiting.newID() else { return try await pingFromElsewhere().get() }
        return try await suspending(on: driver, as: id, #isolation) {
            $0.ping(id, $1)
        } onCancel: {
            $0.cancelPing($1)
        } elsewhere: {
            await pingFromElsewhere()
        }.get()
    }

    package nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int {
        guard let here = driver.here else { return await closeElsewhere(reason) }
        here.beginClose(reason)
        let id = here.waiting.newID()
        return await suspending(on: driver, as: id, #isolation) {
            $0.awaitClosed(id, $1)
        } onCancel: {
            $0.cancelClosed($1)
        } elsewhere: {
            await closeElsewhere(reason)
        }
    }

    package nonisolated(nonsending) func closed() async -> CloseReason {
        await end() ?? CloseReason(.cancelled(.open))
    }

    /// Waits for the end; `nil` if the task was cancelled before.
    private nonisolated(nonsending) func end() async -> CloseReason? {
        guard let here = driver.here else { return await endElsewhere() }
        if let reason = here.reason { return reason }
        let id = here.waiting.newID()
        return await suspending(on: driver, as: id, #isolation) {
            $0.awaitEnd(id, $1)
        } onCancel: {
            $0.cancelEnd($1)
        } elsewhere: {
            await endElsewhere()
        }
    }

    package nonisolated(nonsending) func statistics() async -> ConnectionStatistics {
        // Whoever is on the loop has it.
        if let current = driver.runInlineIfIdle({ $0.currentStatistics }) { return current }
        return await withTaskExecutorPreference(loop) { await self.statistics() }
    }
}

// Calls from outside the connection's loop. While the loop sleeps, the caller's thread runs the call inline; otherwise
// the loop runs it in its next tick. An operation that has to wait is started, and its continuation stored, in one
// step, so that the result can't come between the two. The task changes threads at most once, for the result.
extension CoreConnection {
    private nonisolated(nonsending) func sendFromElsewhere(_ payload: Payload) async -> SendOutcome {
        if case let outcome?? = driver.runInlineIfIdle({ sendAtOnce(payload, by: $0) }) { return outcome }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.send(payload, id, continuation)
            return id
        } onCancel: {
            $0.cancelSend($1)
        }
    }

    private nonisolated(nonsending) func sendFromElsewhere(
        _ payload: Payload,
        _ id: UInt64,
        isRepeated: Bool
    ) async -> SendOutcome {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            isRepeated ? driver.complete(id, continuation) : driver.send(payload, id, continuation)
            return id
        } onCancel: {
            $0.cancelSend($1)
        }
    }

    private nonisolated(nonsending) func receiveElsewhere() async -> PendingOperations.Received {
        if case let message?? = driver.runInlineIfIdle({ $0.takeMessage() }) { return message }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.receive(id, continuation)
            return id
        } onCancel: {
            $0.cancelReceive($1)
        }
    }

    private nonisolated(nonsending) func pingFromElsewhere() async -> Result<Duration, TransportError> {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.ping(id, continuation)
            return id
        } onCancel: {
            $0.cancelPing($1)
        }
    }

    /// Closes the connection, and gives the number of undelivered bytes once the connection is closed.
    private nonisolated(nonsending) func closeElsewhere(_ reason: CloseReason) async -> Int {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            driver.beginClose(reason)
            let id = driver.waiting.newID()
            driver.awaitClosed(id, continuation)
            return id
        } onCancel: {
            $0.cancelClosed($1)
        }
    }

    /// Waits for the end; `nil` if the task was cancelled before.
    private nonisolated(nonsending) func endElsewhere() async -> CloseReason? {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.awaitEnd(id, continuation)
            return id
        } onCancel: {
            $0.cancelEnd($1)
        }
    }
}

extension CoreConnection: SameLoopConnection {
    package var isHere: Bool { loop.isCurrent }

    package func sendNow(_ payload: Payload) -> SendOutcome? {
        sendAtOnce(payload, by: driver.value)
    }

    package func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>? {
        let driver = driver.value
        if let message = driver.takeMessage() { return message }
        driver.waiting.receiver = .neighbour(receiver)
        return nil
    }

    package func abandon(_ reason: CloseReason) {
        driver.value.abandon(reason)
    }

    package func confirmNow() {
        driver.value.confirmTaken()
    }

    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {
        driver.value.reportDiscarded(to: action)
    }

    package func confirmByHand() {
        if let here = driver.here {
            here.confirmByHand()
        } else {
            driver.execute { [driver] in driver.value.confirmByHand() }
        }
    }

    package func confirm(_ count: Int) {
        if let here = driver.here {
            here.confirm(count)
        } else {
            driver.execute { [driver] in driver.value.confirm(count) }
        }
    }

    package func networkChanged() {
        driver.value.networkChanged()
    }

    package var bytesReceivedNow: UInt64 {
        let driver = driver.value
        return driver.channel.bytesReceived - min(driver.channel.bytesReceived, driver.context.counters.repeatedBytes)
    }
}

extension ConnectionDriver {
    func awaitEnd(_ id: UInt64, _ continuation: UnsafeContinuation<CloseReason?, Never>) {
        if let reason { continuation.resume(returning: reason) } else { waiting.closers.append((id, continuation)) }
    }

    func cancelEnd(_ id: UInt64) {
        guard let index = waiting.closers.firstIndex(where: { $0.id == id }) else { return }
        waiting.closers.remove(at: index).continuation.resume(returning: nil)
    }

    /// The statistics as of now.
    var currentStatistics: ConnectionStatistics {
        var current = statistics
        current.bytesSent = channel.bytesSent
        current.bytesReceived = channel.bytesReceived
        current.controlFrames = context.counters.controlFrames
        current.unexpectedAcknowledgements = context.counters.unexpectedAcknowledgements
        current.duplicates = context.counters.duplicates
        current.reordered = context.counters.reordered
        if phase != .closed { current.add(channel.segmentCounts) }
        return current
    }
}
