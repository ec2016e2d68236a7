import TransportAPI
import Transports

extension TransportContract {
    /// How a connection ends, and what waits for it.
    static let endingChecks = [
        ContractCheck("After a close, the peer receives the last message, and then nil") { subject in
            let pair = try await ConnectionPair.open(subject)
            try require(sent: await pair.client.send(message("last")))
            await pair.client.close()
            try require(try await pair.client.receive() == nil, "a closed connection has a message")
            let closed = await pair.client.closed()
            try require(closed.initiator == .user, "the client's reason is \(closed)")
            try require(try await pair.server.receive(), is: Array("last".utf8), "the last message")
            try require(try await pair.server.receive() == nil, "a message came after the last one")
            let ended = await pair.server.closed()
            try require(ended.initiator == .peer, "the server's reason is \(ended)")
            for connection in [pair.client, pair.server] {
                let outcome = await connection.send(message("too late"))
                guard case .rejected = outcome else {
                    throw Unmet(description: "the outcome of a message after the end is \(outcome)")
                }
                let code = await errorCode { _ = try await connection.ping() }
                try require(code != nil, "a ping was answered after the end")
            }
            await pair.close()
        },
        ContractCheck("A connection closes although received messages are not taken") { subject in
            let pair = try await ConnectionPair.open(subject, subject.ifTaken("inbox", "2"))
            try await pair.introduce()
            for number in 0..<20 { try require(sent: await pair.server.send(message("\(number)"))) }
            // Over an unreliable transport, the answer to a ping shows that the messages before it have arrived.
            if pair.client.capabilities.hasNativePing, !pair.client.capabilities.isReliable {
                _ = try await pair.client.ping()
            }
            await pair.client.close()
            let closed = await pair.client.closed()
            try require(closed.initiator == .user, "the client's reason is \(closed)")
            await pair.close()
        },
        ContractCheck("A waiting receive returns nil on both sides when one of them closes") { subject in
            let pair = try await ConnectionPair.open(subject)
            let waiting = [pair.client, pair.server].map { connection in
                Task { try await connection.receive() }
            }
            await pair.client.close()
            for task in waiting { try require(try await task.value == nil, "a receive has returned a message") }
            await pair.close()
        },
        ContractCheck("A waiting receive ends when its task is cancelled, and the connection stays open") { subject in
            let pair = try await ConnectionPair.open(subject)
            let task = Task { _ = try await pair.client.receive() }
            task.cancel()
            let code = await errorCode { try await task.value }
            try require(code == .cancelled, "the error of the receive is \(code?.rawValue ?? "none")")
            try await pair.introduce()
            try require(sent: await pair.server.send(message("alive")))
            try require(try await pair.client.receive(), is: Array("alive".utf8), "the next message")
            await pair.close()
        },
    ]
}
