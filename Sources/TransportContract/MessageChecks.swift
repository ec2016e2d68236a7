import TransportAPI
import Transports

extension TransportContract {
    /// Single messages, and what a transport announces.
    static let messageChecks = [
        ContractCheck("Both ends have the keepalive interval of the descriptor") { subject in
            let interval = subject.transport.keepaliveInterval
            let pair = try await ConnectionPair.open(subject)
            for (name, connection) in [("client", pair.client), ("server", pair.server)] {
                let found = connection.capabilities.keepaliveInterval
                try require(found == interval, "the \(name) has \(found) and the descriptor \(interval)")
            }
            await pair.close()
        },
        ContractCheck("Messages arrive in both directions, in order") { subject in
            let pair = try await ConnectionPair.open(subject)
            for number in 0..<50 {
                let outcome = await pair.client.send(message("to server \(number)"))
                try require(sent: outcome)
                let request = try await pair.server.receive()
                try require(request, is: Array("to server \(number)".utf8), "request \(number)")
                try require(sent: await pair.server.send(message("to client \(number)")))
                let answer = try await pair.client.receive()
                try require(answer, is: Array("to client \(number)".utf8), "answer \(number)")
            }
            await pair.close()
        },
        ContractCheck("A burst of messages keeps its order") { subject in
            let pair = try await ConnectionPair.open(subject)
            for number in 0..<200 { try require(sent: await pair.client.send(message("\(number)"))) }
            for number in 0..<200 {
                try require(try await pair.server.receive(), is: Array("\(number)".utf8), "message \(number)")
            }
            await pair.close()
        },
        ContractCheck("Empty, small and large messages of any bytes arrive unchanged") { subject in
            let pair = try await ConnectionPair.open(subject)
            let largest = min(pair.client.capabilities.maximumMessageSize, 3_000_000)
            for size in [0, 1, 256, largest] {
                let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
                async let outcome = pair.sendOrClose(Payload(bytes))
                let received = try await pair.server.receive()
                try require(sent: await outcome)
                try require(received, is: bytes, "a message of \(size) bytes")
            }
            await pair.close()
        },
        ContractCheck("A message beyond the limit is rejected, and the connection stays open") { subject in
            let pair = try await ConnectionPair.open(subject, subject.ifTaken("max-message", "1000"))
            let limit = pair.client.capabilities.maximumMessageSize
            guard limit < 64 << 20 else { return await pair.close() }
            let outcome = await pair.client.send(Payload([UInt8](repeating: 0x61, count: limit + 1)))
            guard case .rejected(let error) = outcome else {
                throw Unmet(description: "the outcome of \(limit + 1) bytes is \(outcome), and the limit is \(limit)")
            }
            try require(error.code == .messageTooLarge, "it was rejected with \(error)")
            try require(sent: await pair.client.send(message("still here")))
            try require(try await pair.server.receive(), is: Array("still here".utf8), "the next message")
            await pair.close()
        },
        ContractCheck("A topic is carried or rejected, and never dropped") { subject in
            let pair = try await ConnectionPair.open(subject)
            let outcome = await pair.client.send(Payload([0x61], topic: "a/b"))
            if pair.client.capabilities.routesByTopic {
                try require(sent: outcome)
                let topic = try await pair.server.receive()?.topic
                try require(topic == "a/b", "the topic arrived as \(topic ?? "none")")
            } else {
                try requireUnsupported(outcome)
            }
            await pair.close()
        },
        ContractCheck("A request to retain a message is carried or rejected, and never dropped") { subject in
            let pair = try await ConnectionPair.open(subject)
            let hasTopics = pair.client.capabilities.routesByTopic
            let payload = Payload([0x61], topic: hasTopics ? "a/b" : nil, isRetained: true)
            let outcome = await pair.client.send(payload)
            if outcome.isSuccess {
                try require(hasTopics, "a message without a topic was sent, although nothing can be retained under it")
                let isRetained = try await pair.server.receive()?.isRetained
                try require(isRetained == true, "the message arrived without the request")
            } else {
                try requireUnsupported(outcome)
            }
            await pair.close()
        },
        ContractCheck("A ping measures a round trip, or throws that there is none") { subject in
            let pair = try await ConnectionPair.open(subject)
            for connection in [pair.client, pair.server] {
                if connection.capabilities.hasNativePing {
                    try require(try await connection.ping() > .zero, "a round trip takes time")
                } else {
                    let code = await errorCode { _ = try await connection.ping() }
                    try require(code == .unsupported, "without a ping, the error is \(code?.rawValue ?? "none")")
                }
            }
            await pair.close()
        },
        ContractCheck("Sent and received messages are counted") { subject in
            let pair = try await ConnectionPair.open(subject)
            let payload = Payload([UInt8](repeating: 0x61, count: 100))
            for _ in 0..<10 {
                try require(sent: await pair.client.send(payload))
                _ = try await pair.server.receive()
            }
            let sent = await pair.client.statistics()
            let received = await pair.server.statistics()
            try require(sent.messagesSent == 10, "the client counts \(sent.messagesSent) of 10 messages")
            try require(
                received.messagesReceived == 10,
                "the server counts \(received.messagesReceived) of 10 messages"
            )
            try require(
                received.bytesReceived >= 1000 && sent.bytesSent >= received.bytesReceived,
                "\(sent.bytesSent) bytes were sent and \(received.bytesReceived) received, of 1000 of messages"
            )
            try require(sent.handshakeDuration > .zero, "the handshake took no time")
            await pair.close()
        },
    ]

    private static func requireUnsupported(_ outcome: SendOutcome) throws {
        guard case .rejected(let error) = outcome else {
            throw Unmet(description: "the outcome is \(outcome), and not a rejection")
        }
        try require(error.code == .unsupported, "it was rejected with \(error), and not as unsupported")
    }
}
