import SocketIO
import TransportAPI

// What callers do who are not on the link's loop. What need not wait is a plain call also for them while the loop sleeps. What
// must wait is begun, and its continuation put away, in one stretch on the loop, which is theirs for that time if it sleeps, and
// does it when it comes to it if not: the answer can't come in between, and nobody changes threads but for the answer.
extension CoreLink {
    nonisolated(nonsending) func sendFromElsewhere(_ payload: Payload) async -> SendOutcome {
        if case let outcome?? = driver.borrow({ sendAtOnce(payload, by: $0) }) { return outcome }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.send(payload, id, continuation)
            return id
        } onCancel: {
            $0.cancelSend($1)
        }
    }

    nonisolated(nonsending) func sendFromElsewhere(
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

    nonisolated(nonsending) func receiveElsewhere() async -> Waiting.Received {
        if case let message?? = driver.borrow({ $0.takeMessage() }) { return message }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.receive(id, continuation)
            return id
        } onCancel: {
            $0.cancelReceive($1)
        }
    }

    nonisolated(nonsending) func pingFromElsewhere() async -> Result<Duration, TransportError> {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.ping(id, continuation)
            return id
        } onCancel: {
            $0.cancelPing($1)
        }
    }

    /// Closes the link, and gives the number of undelivered bytes once the connection is closed.
    nonisolated(nonsending) func closeElsewhere(_ reason: CloseReason) async -> Int {
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
    nonisolated(nonsending) func endElsewhere() async -> CloseReason? {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64 in
            let id = driver.waiting.newID()
            driver.awaitEnd(id, continuation)
            return id
        } onCancel: {
            $0.cancelEnd($1)
        }
    }
}
