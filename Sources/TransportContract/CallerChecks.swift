import TransportAPI
import Transports

extension TransportContract {
    /// Several tasks that use one connection.
    static let callerChecks = [
        ContractCheck("Messages of several tasks arrive once, in the order of their task") { subject in
            let pair = try await ConnectionPair.open(subject)
            let senders = (0..<4).map { sender in
                Task.detached {
                    for number in 0..<50 {
                        let outcome = await pair.client.send(message("\(sender * 1000 + number)"))
                        if !outcome.isSuccess { return outcome }
                    }
                    return .written
                }
            }
            var seen: [Int] = []
            for _ in 0..<200 {
                guard let payload = try await pair.server.receive() else {
                    throw Unmet(description: "the connection ended after \(seen.count) of 200 messages")
                }
                seen.append(Int(String(decoding: payload.bytes, as: UTF8.self)) ?? -1)
            }
            for sender in 0..<4 {
                let numbers = seen.filter { $0 / 1000 == sender }
                try require(numbers == (0..<50).map { sender * 1000 + $0 }, "task \(sender) sent 0 to 49: \(numbers)")
            }
            for sender in senders { try require(sent: await sender.value) }
            await pair.close()
        },
        ContractCheck("The second of two receivers gets an error, and the first one gets the message") { subject in
            let pair = try await ConnectionPair.open(subject)
            try await pair.introduce()
            for number in 0..<50 {
                try await withThrowingTaskGroup(of: Result<Payload?, TransportError>.self) { group in
                    for _ in 0..<2 {
                        group.addTask {
                            do throws(TransportError) {
                                return .success(try await pair.client.receive())
                            } catch {
                                return .failure(error)
                            }
                        }
                    }
                    // Either of them can be the second.
                    guard case .failure(let error)? = try await group.next() else {
                        throw Unmet(description: "a receiver returned before there was a message")
                    }
                    try require(error.code == .busy, "the second receiver gets \(error)")
                    try require(sent: await pair.server.send(message("\(number)")))
                    let received = try await group.next()?.get()
                    try require(received ?? nil, is: Array("\(number)".utf8), "message \(number)")
                }
            }
            await pair.close()
        },
        ContractCheck("A message is not lost when the receive that waits for it is cancelled") { subject in
            let pair = try await ConnectionPair.open(subject)
            try await pair.introduce()
            for number in 0..<50 {
                let payload = message("\(number)")
                let waiting = Task.detached { try await pair.client.receive() }
                let sending = Task.detached { await pair.server.send(payload) }
                waiting.cancel()
                try require(sent: await sending.value)
                let received: Payload?
                do {
                    received = try await waiting.value
                } catch {
                    let code = (error as? TransportError)?.code
                    try require(code == .cancelled, "the cancelled receive ends with \(error)")
                    received = try await pair.client.receive()
                }
                try require(received, is: payload.bytes, "message \(number)")
            }
            await pair.close()
        },
    ]
}
