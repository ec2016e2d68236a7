import TransportAPI
import Transports

/// The promises of every transport, as checks that the tests of any package can run.
///
/// ```swift
/// @Test("keeps the contract", .timeLimit(.minutes(1)), arguments: TransportContract.checks)
/// func contract(check: ContractCheck) async throws {
///     try await check.run(ContractSubject(.lines))
/// }
/// ```
///
/// A check opens a listener on a port of the system's choice, and connects to it. A transport that breaks its promises can
/// make a check wait without end, so give the test a time limit. Where a transport announces that it lacks an ability
/// (``TransportAPI/Capabilities``), a check requires that it refuses, and does not require the ability.
public enum TransportContract {
    /// All checks. They are independent of each other and can run at the same time.
    public static let checks: [ContractCheck] =
        messageChecks + pressureChecks + connectingChecks + serverChecks + endingChecks + callerChecks
}

/// One promise of every transport.
public struct ContractCheck: Sendable, Identifiable, CustomStringConvertible {
    /// The promise, in one sentence.
    public let name: String
    private let body: nonisolated(nonsending) @Sendable (ContractSubject) async throws -> Void

    init(_ name: String, _ body: nonisolated(nonsending) @escaping @Sendable (ContractSubject) async throws -> Void) {
        self.name = name
        self.body = body
    }

    /// The name.
    public var id: String { name }
    /// The name.
    public var description: String { name }

    /// Runs the check on the caller's executor.
    ///
    /// - Throws: A ``ContractFailure`` that says what the transport did instead.
    public nonisolated(nonsending) func run(_ subject: ContractSubject) async throws(ContractFailure) {
        do {
            try await body(subject)
        } catch {
            throw ContractFailure(check: name, transport: "\(subject)", sentence: "\(error)")
        }
    }
}

/// A transport that checks run on.
public struct ContractSubject: Sendable, CustomStringConvertible {
    /// The transport.
    public var transport: TransportDescriptor
    /// Options of each client's URL, which choose a mode of the transport.
    public var options: [Endpoint.Option]
    /// The host at which servers listen and to which clients connect.
    public var host: String

    /// Creates a subject.
    ///
    /// - Parameters:
    ///   - options: Options of each client's URL. None by default.
    ///   - host: The host at which servers listen and to which clients connect. 127.0.0.1 by default.
    public init(_ transport: TransportDescriptor, options: [Endpoint.Option] = [], host: String = "127.0.0.1") {
        self.transport = transport
        self.options = options
        self.host = host
    }

    /// Creates a subject from a URL without a port, such as `udp://127.0.0.1?reliable=ordered`.
    ///
    /// - Throws: `.invalidConfiguration` if the URL is malformed, or if `registry` does not have its transport.
    public init(_ url: String, registry: TransportRegistry = .standard) throws(TransportError) {
        let endpoint = try Endpoint(url)
        let transport = try registry.transport(named: endpoint.scheme)
        self.init(transport, options: endpoint.options, host: endpoint.host)
    }

    /// The name of the transport, with its mode.
    public var description: String {
        let mode = options.map { $0.value.isEmpty ? $0.name : "\($0.name)=\($0.value)" }.joined(separator: "&")
        return mode.isEmpty ? transport.name : "\(transport.name)?\(mode)"
    }
}

/// A promise that a transport has broken.
public struct ContractFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the check.
    public var check: String
    /// The transport, with its mode.
    public var transport: String
    /// The mistake of the transport, in one sentence.
    public var sentence: String

    /// Creates a failure from its parts.
    public init(check: String, transport: String, sentence: String) {
        self.check = check
        self.transport = transport
        self.sentence = sentence
    }

    /// The transport, the promise, and what was wrong.
    public var description: String { "\(transport) breaks the promise '\(check)': \(sentence)" }
}
