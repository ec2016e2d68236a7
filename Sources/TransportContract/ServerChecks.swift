import EmbeddedServers
import TransportAPI
import Transports

extension TransportContract {
    /// The servers and the supervisor, which every transport gets.
    static let serverChecks = [
        ContractCheck("An echo server returns every message") { subject in
            try await subject.serving(.echo) { server in
                let connection = try await subject.connect(to: subject.client(of: server, "echo"))
                for number in 0..<20 {
                    try require(sent: await connection.send(message("\(number)")))
                    try require(try await connection.receive(), is: Array("\(number)".utf8), "message \(number)")
                }
                await connection.close()
            }
        },
        ContractCheck("A fan-out server sends a message to all clients") { subject in
            try await subject.serving(.fanOut) { server in
                let endpoint = subject.client(of: server, "room")
                var connections: [any Connection] = []
                for _ in 0..<5 { connections.append(try await subject.connect(to: endpoint)) }
                // A server may know of the last client a little later than that client itself.
                for connection in connections.reversed() {
                    try require(sent: await connection.send(message("hello")))
                    try require(try await connection.receive(), is: Array("hello".utf8), "the message")
                }
                for connection in connections { await connection.close() }
            }
        },
        ContractCheck("Clients receive the end when the server stops") { subject in
            let server = try await EmbeddedServer.start("\(subject.listening)", .echo, registry: subject.registry)
            let connection = try await subject.connect(to: subject.client(of: server.endpoint, "stop"))
            try require(sent: await connection.send(message("hello")))
            try require(try await connection.receive(), is: Array("hello".utf8), "the message")
            await server.stop()
            try require(try await connection.receive() == nil, "a message came from a stopped server")
            await connection.close()
        },
        ContractCheck("A supervisor sends and receives messages") { subject in
            try await subject.serving(.echo) { server in
                let endpoint = subject.client(of: server, "supervised")
                let configuration = TransportConfiguration(endpoints: [endpoint])
                let supervisor = try Supervisor(configuration, registry: subject.registry)
                var messages = supervisor.messages.makeAsyncIterator()
                supervisor.connect()
                for number in 0..<20 {
                    try require(sent: await supervisor.send(message("\(number)")))
                    try require(await messages.next(), is: Array("\(number)".utf8), "message \(number)")
                }
                await supervisor.close()
            }
        },
        ContractCheck("A session continues over the next connection") { subject in
            // A server that routes by topic has no sessions of this package.
            guard try !subject.transport.make(subject.listening, ConnectionContext()).capabilities.routesByTopic else {
                return
            }
            let listener = try await subject.listen()
            let server = SessionServer { session in
                let messages = session.messages
                Task { for await message in messages { _ = await session.send(message) } }
            }
            let serving = Task { try await server.serve(listener) }
            var configuration = TransportConfiguration(endpoints: [subject.client(of: listener.endpoint, "session")])
            configuration.supervisor.delivery.mode = .session
            let supervisor = try Supervisor(configuration, registry: subject.registry)
            var messages = supervisor.messages.makeAsyncIterator()
            supervisor.connect()
            for number in 0..<3 {
                try require(await supervisor.send(message("\(number)")) == .acknowledged, "a message was lost")
                try require(await messages.next(), is: Array("\(number)".utf8), "message \(number)")
                await server.dropConnections()
            }
            await supervisor.close()
            await listener.close()
            try await serving.value
            await server.close()
        },
    ]
}
