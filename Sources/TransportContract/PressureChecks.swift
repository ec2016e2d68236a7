import TransportAPI
import Transports

extension TransportContract {
    /// More than all buffers on the way take.
    private static let (muchCount, muchSize) = (1500, 20_000)

    /// Many messages, of which some wait for room or for their acknowledgement.
    static let pressureChecks = [
        ContractCheck("Senders wait while the buffers are full, and the order is kept") { subject in
            let pair = try await ConnectionPair.open(subject, subject.ifTaken("write-buffer", "10000"))
            // Unreliable messages may be lost.
            let count = pair.client.capabilities.isReliable ? 2000 : 0
            let sending = Task {
                for number in 0..<count {
                    let outcome = await pair.client.send(numbered(number, 1000))
                    if !outcome.isSuccess { return outcome }
                }
                return .written
            }
            for number in 0..<count {
                let expected = numbered(number, 1000).bytes
                try require(try await pair.server.receive(), is: expected, "message \(number)")
            }
            try require(sent: await sending.value)
            await pair.close()
        },
        ContractCheck("A message that waits for room is rejected when its task is cancelled") { subject in
            let pair = try await ConnectionPair.open(subject)
            guard pair.client.capabilities.isReliable else { return await pair.close() }
            let size = min(muchSize, pair.client.capabilities.maximumMessageSize)
            let sending = Task { () -> (sent: Int, failure: SendOutcome?) in
                for number in 0..<muchCount {
                    let outcome = await pair.client.send(numbered(number, size))
                    guard outcome.isSuccess else { return (number, outcome) }
                }
                return (muchCount, nil)
            }
            try require(try await pair.server.receive(), is: numbered(0, size).bytes, "message 0")
            sending.cancel()
            let (sent, failure) = await sending.value
            var mayHaveLeft = false
            switch failure {
            case .rejected(let error): try require(error.code == .cancelled, "it was rejected with \(error)")
            // It waited for its acknowledgement, and not for room.
            case .unknown(let error):
                try require(error.code == .cancelled, "its outcome is unknown because of \(error)")
                mayHaveLeft = true
            default:
                throw Unmet(description: "\(sent) messages were sent, and the next one ended \(failure as Any)")
            }
            let next = Task { await pair.client.send(message("next")) }
            var taken = 1
            while let payload = try await pair.server.receive(), payload.bytes != Array("next".utf8) {
                try require(payload, is: numbered(taken, size).bytes, "message \(taken)")
                taken += 1
            }
            try require(
                taken == sent || mayHaveLeft && taken == sent + 1,
                "\(sent) messages were sent before the cancelled one, and \(taken) arrived"
            )
            try require(sent: await next.value)
            await pair.close()
        },
        ContractCheck("Each message has an outcome when the connection ends") { subject in
            let pair = try await ConnectionPair.open(subject)
            let senders = (0..<8).map { _ in
                Task {
                    while true {
                        let outcome = await pair.client.send(numbered(0, 1000))
                        if !outcome.isSuccess { return outcome }
                    }
                }
            }
            try require(try await pair.server.receive(), is: numbered(0, 1000).bytes, "the first message")
            await pair.server.close()
            for sender in senders {
                switch await sender.value {
                case .rejected, .unknown: break
                case let outcome: throw Unmet(description: "a message ended \(outcome)")
                }
            }
            await pair.close()
        },
    ]
}
