import EmbeddedServers
import TransportAPI
import Transports

/// A condition that does not hold. ``ContractCheck/run(_:)`` adds the check and the transport.
struct Unmet: Error, CustomStringConvertible {
    let description: String
}

/// Throws a sentence unless `condition` holds.
func require(_ condition: Bool, _ sentence: @autoclosure () -> String) throws {
    if !condition { throw Unmet(description: sentence()) }
}

/// Throws unless the message was accepted or acknowledged.
func require(sent outcome: SendOutcome) throws {
    try require(outcome.isSuccess, "a message was not sent, but its outcome is \(outcome)")
}

/// Throws unless `payload` has these bytes.
func require(_ payload: Payload?, is bytes: [UInt8], _ name: String) throws {
    guard let payload else { throw Unmet(description: "the connection ended before \(name) was received") }
    if payload.bytes != bytes {
        let sizes = "\(payload.bytes.count) bytes in place of \(name), which has \(bytes.count)"
        let texts = "'\(String(decoding: payload.bytes, as: UTF8.self))' in place of \(name)"
        throw Unmet(description: "received " + (bytes.count < 64 && payload.bytes.count < 64 ? texts : sizes))
    }
}

/// A message that is a text, without a topic.
func message(_ text: String) -> Payload {
    Payload(Array(text.utf8))
}

/// Message number `number`, of `size` bytes.
func numbered(_ number: Int, _ size: Int) -> Payload {
    let digits = Array("\(number)".utf8)
    return Payload(digits + [UInt8](repeating: 0x20, count: max(0, size - digits.count)))
}

extension ContractSubject {
    /// Where a server listens, on a port that the system chooses.
    var listening: Endpoint {
        Endpoint(scheme: transport.name, host: host, port: 0)
    }

    /// A registry that has this transport only.
    var registry: TransportRegistry { TransportRegistry([transport]) }

    nonisolated(nonsending) func listen() async throws -> any Listener {
        try await transport.serve(listening, .shared, Serving())
    }

    /// The endpoint of a client whose messages come back to it, if a server routes them by topic.
    func client(of server: Endpoint, _ name: String, _ added: [Endpoint.Option] = []) -> Endpoint {
        var endpoint = server
        endpoint.options = transport.loopback(name) + options + added
        return endpoint
    }

    nonisolated(nonsending) func connect(to endpoint: Endpoint) async throws -> any Connection {
        try await transport.make(endpoint, ConnectionContext()).connect(timeout: .seconds(10))
    }

    /// The option if the transport takes it, otherwise none.
    func ifTaken(_ name: String, _ value: String) -> [Endpoint.Option] {
        let option = Endpoint.Option(name: name, value: value)
        let taken = try? transport.make(client(of: listening, "option", [option]), ConnectionContext())
        return taken == nil ? [] : [option]
    }

    /// Runs `body` with an embedded server.
    nonisolated(nonsending) func serving(
        _ service: EmbeddedServer.Service,
        _ body: nonisolated(nonsending) (Endpoint) async throws -> Void
    ) async throws {
        let server = try await EmbeddedServer.start("\(listening)", service, registry: registry)
        do {
            try await body(server.endpoint)
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }
}

/// Two ends of one connection.
struct ConnectionPair: Sendable {
    let listener: any Listener
    let client: any Connection
    let server: any Connection

    /// Opens a connection to a new listener.
    nonisolated(nonsending) static func open(
        _ subject: ContractSubject,
        _ options: [Endpoint.Option] = []
    ) async throws -> ConnectionPair {
        let listener = try await subject.listen()
        let endpoint = subject.client(of: listener.endpoint, "pair", options)
        async let accepted = listener.accept()
        let client = try await subject.connect(to: endpoint)
        guard let server = try await accepted else {
            throw Unmet(description: "the listener returned nil before it was closed")
        }
        return ConnectionPair(listener: listener, client: client, server: server)
    }

    /// Sends a message of the client, so that a server that routes by topic knows where to send.
    nonisolated(nonsending) func introduce() async throws {
        try require(sent: await client.send(message("hello")))
        try require(try await server.receive(), is: Array("hello".utf8), "the first message")
    }

    /// Sends a message of the client. Closes the client if the message is not sent, so that no receiver waits for it.
    func sendOrClose(_ payload: Payload) async -> SendOutcome {
        let outcome = await client.send(payload)
        if !outcome.isSuccess { await client.close() }
        return outcome
    }

    nonisolated(nonsending) func close() async {
        await client.close()
        await server.close()
        await listener.close()
    }
}

/// The code of the error that `operation` throws; `nil` if it throws none.
nonisolated(nonsending) func errorCode(
    of operation: nonisolated(nonsending) () async throws -> Void
) async -> TransportError.Code? {
    do {
        try await operation()
        return nil
    } catch {
        return (error as? TransportError)?.code ?? .systemError
    }
}
