import Primitives
import Protocols
import SocketIO
import TransportAPI

/// How the connections of an encrypted transport are protected.
struct StreamSecurity: Sendable {
    /// The loaded certificates.
    var contexts: TLSContexts
    /// The application protocols that clients offer and servers accept.
    var protocols: [String] = []
    /// How often a server checks its files at most when clients connect.
    var checkInterval: Duration = .seconds(1)
    /// How often a server checks its files without a client. Otherwise the first client after a long time would be checked
    /// with an old revocation list.
    var idleCheckInterval: Duration = .seconds(10)

    /// TLS by the system's OpenSSL.
    static let openSSL = StreamSecurity(contexts: .shared)
    /// TLS by the system's OpenSSL, for a protocol that begins with HTTP.
    static let openSSLForHTTP = StreamSecurity(contexts: .shared, protocols: ["http/1.1"])
}

/// TLS of a client to one server, or to a proxy.
struct ClientTLS: Sendable {
    private let contexts: TLSContexts
    private let settings: TLSSettings
    private let host: String
    private let port: UInt16
    private var isForProxy = false

    /// TLS to a server.
    init(
        _ security: StreamSecurity,
        _ settings: TLSClientSettings,
        host: String,
        port: UInt16
    ) throws(TransportError) {
        contexts = security.contexts
        self.settings = settings.tls
        self.host = settings.serverName ?? host
        self.port = port
        try Self.checkName(self.host, of: settings.serverName == nil ? "host" : "server-name")
    }

    /// TLS to a proxy.
    ///
    /// - Parameter authorities: The trusted authorities; `nil` for those of the system.
    init(
        toProxy host: String,
        port: UInt16,
        authorities: TLSFile?,
        _ contexts: TLSContexts
    ) throws(TransportError) {
        self.contexts = contexts
        isForProxy = true
        var settings = TLSSettings(.client)
        settings.protocols = ["http/1.1"]
        settings.authorities = authorities
        self.settings = settings
        self.host = host
        self.port = port
        try Self.checkName(host, of: "proxy")
    }

    /// Refuses names that certificates cannot contain, and those that other parts of the system read differently.
    private static func checkName(_ host: String, of key: String) throws(TransportError) {
        guard host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), (1...255).contains(host.utf8.count) else {
            throw .configuration(
                key,
                "must be ASCII, because certificates contain such names (write internationalised names as Punycode)"
            )
        }
        // OpenSSL would accept every name below a name that begins with a dot, and check no name at all if it is empty.
        guard host.utf8.first != UInt8(ascii: ".") else {
            throw .configuration(key, "is '\(host)'; a name that a certificate can contain does not begin with a dot")
        }
        // The resolver reads such a number as octal, and OpenSSL as decimal.
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let isNumeric = parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        if isNumeric, parts.contains(where: { $0.utf8.count > 1 && $0.utf8.first == 0x30 }) {
            throw .configuration(key, "is '\(host)'; write each part of an address without leading zeros")
        }
    }

    /// Loads the certificates, and returns a function that makes TLS over a stream. The handshake has not begun then. The
    /// function returns `nil` if there is no memory. Call both on the loop.
    nonisolated(nonsending) func load(
        on loop: EventLoop,
        deadline: Int64
    ) async throws(TransportError) -> (any ByteChannel) -> TLSStream? {
        let context: any TLSContext
        do throws(TLSSetupError) {
            context = try await contexts.context(for: settings, on: loop, deadline: deadline)
        } catch {
            throw setupError(error)
        }
        return { [host, port] stream in
            context.makeEngine(host: host, port: port).map { TLSStream(over: stream, $0, .client, on: loop) }
        }
    }

    /// Returns TLS over `stream`. Its handshake has not begun. Call this on the loop.
    nonisolated(nonsending) func protect(
        _ stream: any ByteChannel,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(TransportError) -> TLSStream {
        do throws(TransportError) {
            guard let protected = try await load(on: loop, deadline: deadline)(stream) else { throw .noEngine }
            return protected
        } catch {
            stream.close(abort: true)
            throw error
        }
    }

    /// Returns the engine of one association of datagrams. Call this on the loop.
    ///
    /// - Parameter largest: The longest message that is written, in bytes.
    nonisolated(nonsending) func datagramEngine(
        largest: Int,
        on loop: EventLoop,
        deadline: Int64
    ) async throws(TransportError) -> any DatagramTLSEngine {
        let context: any TLSContext
        do throws(TLSSetupError) {
            context = try await contexts.context(for: settings, on: loop, deadline: deadline)
        } catch {
            throw setupError(error)
        }
        guard let engine = context.makeDatagramEngine(host: host, port: port, largest: largest) else {
            throw .noEngine
        }
        return engine
    }

    private func setupError(_ error: TLSSetupError) -> TransportError {
        switch error {
        case .cancelled: TransportError(error)
        case .setting("ca", let problem) where isForProxy: .configuration("proxy-ca", problem)
        case .changedSetting("ca", let problem) where isForProxy: TransportError(.changedSetting("proxy-ca", problem))
        default: isForProxy ? TransportError(error).ofProxy : TransportError(error)
        }
    }
}

/// TLS of a server. It loads its certificate again when the files have changed. Lives on its loop.
package final class ServerTLS {
    /// How long loading may take, in nanoseconds.
    private static let loadTime: Int64 = 10_000_000_000

    private let contexts: TLSContexts
    private let settings: TLSSettings
    private let checkInterval: Int64
    private let idleCheckInterval: Int64
    private let loop: EventLoop
    private var context: any TLSContext
    private var lastCheck: Int64
    private var isLoading = false
    private var lastFailure: TransportError?
    /// Called with the reason when changed files cannot be loaded. The former certificate stays in use. The server sets it to
    /// `nil` when it closes, and then the files are not checked any more.
    var onFailure: ((TransportError) -> Void)?

    private init(_ security: StreamSecurity, _ settings: TLSSettings, _ context: any TLSContext, _ loop: EventLoop) {
        contexts = security.contexts
        checkInterval = security.checkInterval.wholeNanoseconds
        idleCheckInterval = security.idleCheckInterval.wholeNanoseconds
        (self.settings, self.context, self.loop) = (settings, context, loop)
        lastCheck = MonotonicClock.now()
    }

    /// Loads the certificate of a server. Returns `nil` if there is no security.
    nonisolated(nonsending) static func load(
        _ security: StreamSecurity?,
        _ settings: TLSSettings,
        on loop: EventLoop
    ) async throws(TransportError) -> LoopBound<ServerTLS>? {
        guard let security else { return nil }
        let context: any TLSContext
        do throws(TLSSetupError) {
            let deadline = MonotonicClock.now() + loadTime
            context = try await security.contexts.context(for: settings, on: loop, deadline: deadline)
        } catch {
            throw TransportError(error)
        }
        let server = LoopBound(ServerTLS(security, settings, context, loop), to: loop)
        if security.contexts.hasFiles(settings) { loop.execute { server.value.checkLater() } }
        return server
    }

    /// Returns TLS over an accepted connection, or `nil` without memory.
    func protect(_ stream: any ByteChannel) -> TLSStream? {
        checkFilesIfDue()
        return context.makeEngine(host: nil, port: 0).map { TLSStream(over: stream, $0, .server, on: loop) }
    }

    /// Returns the engine of one association of datagrams, or `nil` without memory.
    ///
    /// - Parameter largest: The longest message that is written, in bytes.
    func datagramEngine(largest: Int) -> (any DatagramTLSEngine)? {
        checkFilesIfDue()
        return context.makeDatagramEngine(host: nil, port: 0, largest: largest)
    }

    private func checkLater() {
        _ = loop.schedule(at: loop.now + idleCheckInterval) { [weak self] in
            guard let self, onFailure != nil else { return }
            checkFiles()
            checkLater()
        }
    }

    private func checkFilesIfDue() {
        if loop.now - lastCheck >= checkInterval { checkFiles() }
    }

    private func checkFiles() {
        guard !isLoading else { return }
        lastCheck = loop.now
        isLoading = true
        let bound = LoopBound(self, to: loop)
        let limit = LoopTimer(on: loop, at: loop.now + Self.loadTime) {
            bound.value.report(TransportError(.busy("the changed certificates could not be loaded in time")))
        }
        contexts.refresh(settings) { [loop] result in
            limit.cancel()
            loop.execute { bound.value.loaded(result) }
        }
    }

    private func report(_ failure: TransportError) {
        if failure != lastFailure { onFailure?(failure) }
        lastFailure = failure
    }

    private func loaded(_ result: Result<any TLSContext, TLSSetupError>) {
        isLoading = false
        switch result {
        case .success(let context):
            self.context = context
            lastFailure = nil
        case .failure(let error):
            report(TransportError(error))
        }
    }
}

extension TransportError {
    static let noEngine = TransportError(
        .resourcesExhausted,
        .secure,
        "there is no memory for another encrypted connection"
    )

    /// Creates the error for TLS that cannot be set up.
    init(_ error: TLSSetupError) {
        switch error {
        case .setting(let key, let problem): self = .configuration(key, problem)
        case .changedSetting(let key, let problem):
            self.init(.systemError, .secure, "a changed file cannot be used: \(key) \(problem)")
        case .noLibrary(let sentence): self.init(.unsupported, .secure, sentence)
        case .busy(let sentence): self.init(.resourcesExhausted, .secure, sentence)
        case .cancelled: self = .cancelled(.secure)
        }
    }

    /// Creates the error for a connection that TLS has ended.
    package init(_ failure: TLSFailure, wasOpen: Bool) {
        let code: Code =
            switch failure.problem {
            case .expired, .notYetValid, .wrongHost, .wrongAddress, .unknownIssuer, .selfSigned, .incompleteChain,
                .revoked, .noRevocationList, .weakKey, .pinMismatch, .invalidCertificate:
                .certificateRejected
            case .certificateRequired, .certificateRefused: .authenticationFailed
            case .protocolVersion, .noCommonAlgorithm, .noCommonProtocol, .plainText, .unexpectedTLS:
                .secureHandshakeFailed
            case .truncated, .brokenRecord, .renegotiation, .postHandshakeAuthentication, .other: .connectionLost
            case .tooManyEmptyRecords: .protocolViolation
            }
        let belongsToHandshake =
            switch failure.problem {
            case .truncated, .brokenRecord, .tooManyEmptyRecords, .renegotiation, .postHandshakeAuthentication, .other:
                false
            default: true
            }
        let phase: Phase = belongsToHandshake || !wasOpen ? .secure : .open
        self.init(code, phase, failure.sentence, detail: failure.problem.rawValue)
    }
}
