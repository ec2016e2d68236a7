import SocketIO
import TransportAPI

// What callers do who are not on the link's loop. What need not wait is a plain call also for them while the loop sleeps. What
// must wait is begun, and its continuation put away, in one stretch on the loop, which is theirs for that time if it sleeps, and
// does it when it comes to it if not: the answer can't come in between, and nobody changes threads but for the answer.
extension CoreLink {
    nonisolated(nonsending) func sendFromElsewhere(_ payload: Payload) async -> SendOutcome {
        if settlesAtOnce, case let outcome?? = driver.borrow({ $0.sendUnlessWaiting(payload) }) { return outcome }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64? in
            driver.beginSend(payload).answer(continuation) { driver.park(send: $0, continuation) }
        } onCancel: {
            $0.cancelSend($1)
        }
    }

    nonisolated(nonsending) func receiveElsewhere() async -> Waiting.Received {
        if case let message?? = driver.borrow({ $0.takeMessage() }) { return message }
        return await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64? in
            if let message = driver.takeMessage() {
                continuation.resume(returning: message)
                return nil
            }
            let id = driver.waiting.newID()
            driver.waiting.receiver = .task(id: id, continuation)
            return id
        } onCancel: {
            $0.cancelReceive($1)
        }
    }

    nonisolated(nonsending) func pingFromElsewhere() async -> Result<Duration, TransportError> {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64? in
            driver.beginPing().answer(continuation) { driver.park(ping: $0, continuation) }
        } onCancel: {
            $0.cancelPing($1)
        }
    }

    /// Waits for the end, which `goodbye` begins if it is given; `nil` if the task was cancelled before.
    nonisolated(nonsending) func endElsewhere(closing goodbye: CloseReason? = nil) async -> CloseReason? {
        await suspendingElsewhere(on: driver, #isolation) { (driver, continuation) -> UInt64? in
            if let goodbye { driver.beginClose(goodbye) }
            if let reason = driver.reason {
                continuation.resume(returning: reason)
                return nil
            }
            let id = driver.waiting.newID()
            driver.waiting.closers.append((id, continuation))
            return id
        } onCancel: {
            $0.cancelClosed($1)
        }
    }
}

extension Begun where Value: Sendable {
    /// Answers who is to hear of it if it has finished, else parks him; under which id.
    fileprivate func answer(_ continuation: UnsafeContinuation<Value, Never>, orPark park: (UInt64) -> Void) -> UInt64?
    {
        switch self {
        case .finished(let value):
            continuation.resume(returning: value)
            return nil
        case .waiting(let id):
            park(id)
            return id
        }
    }
}
