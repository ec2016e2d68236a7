import SocketIO
import TransportAPI

// Many messages at a time. Where the loop is not the caller's, the whole call goes there: to change threads twice for many messages
// is little for each.
extension CoreLink {
    package nonisolated(nonsending) func send(_ batch: borrowing MessageBatch) async -> SendOutcomes {
        guard settlesAtOnce else { return await sendEach(batch.payloads()) }
        guard loop.isCurrent else { return await withTaskExecutorPreference(loop) { await self.send(batch) } }
        var outcomes = SendOutcomes()
        var cursor = MessageBatch.Cursor()
        while cursor.index < batch.count {
            let before = cursor.index
            // Who has been taken away from the loop meanwhile sends the rest one by one.
            let step = driver.here?.send(batch, from: &cursor) ?? .single
            outcomes.append(.written, count: cursor.index - before)
            switch step {
            case .finished: break
            case .single:
                guard let payload = batch.takePayload(at: &cursor) else { break }
                let outcome = await send(payload)
                outcomes.append(outcome)
                if !outcome.isSuccess, Task.isCancelled {
                    outcomes.append(.rejected(.cancelled(.open)), count: batch.count - cursor.index)
                    return outcomes
                }
            case .full:
                let id = driver.value.waiting.newID()
                let outcome = await suspending(on: driver, as: id, #isolation) {
                    $0.awaitRoom(id, $1)
                } onCancel: {
                    $0.cancelSend($1)
                } elsewhere: {
                    .written
                }
                guard outcome.isSuccess else {
                    outcomes.append(outcome, count: batch.count - cursor.index)
                    return outcomes
                }
            case .refused(let error):
                outcomes.append(.rejected(error), count: batch.count - cursor.index)
                return outcomes
            }
        }
        return outcomes
    }

    /// How many messages of a batch are under way at a time, if the protocol's window is as large.
    private static let sendersAtOnce = 1024

    /// Sends messages that are acknowledged one by one, many under way at a time: as tasks on the loop, which begin in their order.
    private nonisolated(nonsending) func sendEach(_ payloads: [Payload]) async -> SendOutcomes {
        let loop = loop
        let settled = await withTaskGroup(of: (Int, SendOutcome).self) { group in
            let cancelled = SendOutcome.rejected(.cancelled(.open))
            var settled = Array(repeating: cancelled, count: payloads.count)
            for (index, payload) in payloads.enumerated() {
                if index >= Self.sendersAtOnce, let (index, outcome) = await group.next() { settled[index] = outcome }
                guard !Task.isCancelled else { break }
                group.addTask(executorPreference: loop) {
                    (index, Task.isCancelled ? cancelled : await self.send(payload))
                }
            }
            for await (index, outcome) in group { settled[index] = outcome }
            return settled
        }
        var outcomes = SendOutcomes()
        for outcome in settled { outcomes.append(outcome) }
        return outcomes
    }

    package nonisolated(nonsending) func receive(into batch: inout MessageBatch) async throws(TransportError) -> Bool {
        while true {
            guard let here = driver.here else { return try await receiveElsewhere(into: &batch) }
            if let result = here.takeMessages(into: &batch) { return try result.get() }
            let id = here.waiting.newID()
            let result = await suspending(on: driver, as: id, #isolation) {
                $0.awaitMessages(id, $1)
            } onCancel: {
                $0.cancelReceive($1)
            } elsewhere: {
                .success(true)
            }
            // Whoever was told that something is there finds it, unless it asks in another way before.
            if case .failure(let error) = result { throw error }
        }
    }

    private nonisolated(nonsending) func receiveElsewhere(
        into batch: inout MessageBatch
    ) async throws(TransportError) -> Bool {
        if let result = driver.borrow({ $0.takeMessages(into: &batch) }), let result { return try result.get() }
        let result: Result<Bool, TransportError> = await withTaskExecutorPreference(loop) {
            do throws(TransportError) { return .success(try await self.receive(into: &batch)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
