import TransportAPI
import Transports

extension TransportContract {
    /// Connecting and listening.
    static let connectingChecks = [
        ContractCheck("An attempt without a server fails with a typed error") { subject in
            // Another program can take the port of the closed listener.
            for attempt in 1...3 {
                let listener = try await subject.listen()
                let transport = try subject.transport.make(
                    subject.client(of: listener.endpoint, "refused"),
                    ConnectionContext()
                )
                await listener.close()
                let connection: any Connection
                do throws(TransportError) {
                    connection = try await transport.connect(timeout: .seconds(20))
                } catch {
                    try require(error.isRetryable, "the supervisor would not retry after \(error)")
                    return try require(error.code == .refused, "the error is \(error)")
                }
                await connection.close()
                try require(attempt < 3, "the client has connected to a closed listener")
            }
        },
        ContractCheck("An attempt ends when its task is cancelled") { subject in
            let listener = try await subject.listen()
            let endpoint = subject.client(of: listener.endpoint, "cancelled")
            let transport = try subject.transport.make(endpoint, ConnectionContext())
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                _ = try await transport.connect(timeout: .seconds(600))
            }
            let code = await errorCode { try await task.value }
            try require(code == .cancelled, "the error of the attempt is \(code?.rawValue ?? "none")")
            await listener.close()
        },
        ContractCheck("A closed listener accepts no client, and accepted connections stay open") { subject in
            let pair = try await ConnectionPair.open(subject)
            let waiting = Task { try await pair.listener.accept() != nil }
            await pair.listener.close()
            try require(try await !waiting.value, "the closed listener has accepted a client")
            try require(sent: await pair.client.send(message("after")))
            try require(try await pair.server.receive(), is: Array("after".utf8), "the next message")
            await pair.close()
        },
        ContractCheck("The endpoint of a listener has the port at which clients reach it") { subject in
            let listener = try await subject.listen()
            try require(
                listener.endpoint.scheme == subject.transport.name && listener.endpoint.port != 0,
                "the endpoint is \(listener.endpoint)"
            )
            await listener.close()
        },
        ContractCheck("An unknown option is refused with its name") { subject in
            let option = Endpoint.Option(name: "colour", value: "red")
            do throws(TransportError) {
                _ = try subject.transport.make(
                    subject.client(of: subject.listening, "option", [option]),
                    ConnectionContext()
                )
            } catch {
                try require(error.code == .invalidConfiguration, "the error is \(error)")
                return try require(error.reason.contains("colour"), "the error does not name the option: \(error)")
            }
            throw Unmet(description: "the transport ignores an option that it does not know")
        },
    ]
}
