import CommandSupport
import Primitives
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// ``TrialTLS`` with the processor time of each step of a server's handshakes.
final class MeasuredTLS: TLSProvider {
    private let inner = TrialTLS()
    private let steps = Locked(HandshakeSteps())
    private let requestsCertificates: Bool

    /// An authority that has issued no certificate.
    private static let authority = try? ThrowAwayAuthority("An authority without clients").certificate

    /// - Parameter requestsCertificates: whether servers request certificates of clients, and trust none.
    init(requestsCertificates: Bool) {
        self.requestsCertificates = requestsCertificates
    }

    var readsFiles: Bool { inner.readsFiles }

    /// The steps since the last call.
    func takeSteps() -> HandshakeSteps {
        steps.withLock { steps in
            defer { steps = HandshakeSteps() }
            return steps
        }
    }

    fileprivate func add(_ time: Int64) {
        steps.withLock { $0.add(time) }
    }

    func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        var settings = settings
        if settings.side == .server, requestsCertificates {
            settings.clientCertificates = .optional
            settings.authorities = Self.authority.map { TLSFile($0) }
        }
        let context = try inner.makeContext(settings, password: password)
        return settings.side == .server ? MeasuredContext(context, self) : context
    }

    /// The transports of ``/Transports/TransportRegistry/trial``, measured.
    var registry: TransportRegistry { .encrypted(by: TLSContexts(self)) }
}

private final class MeasuredContext: TLSContext {
    private let inner: any TLSContext
    private let meter: MeasuredTLS

    init(_ inner: any TLSContext, _ meter: MeasuredTLS) {
        (self.inner, self.meter) = (inner, meter)
    }

    func makeEngine(host: String?, port: UInt16) -> (any TLSEngine)? {
        inner.makeEngine(host: host, port: port).map { MeasuredEngine($0, meter) }
    }

    func makeDatagramEngine(host: String?, port: UInt16, largest: Int) -> (any DatagramTLSEngine)? {
        inner.makeDatagramEngine(host: host, port: port, largest: largest)
    }
}

private final class MeasuredEngine: TLSEngine {
    private let inner: any TLSEngine
    private let meter: MeasuredTLS

    init(_ inner: any TLSEngine, _ meter: MeasuredTLS) {
        (self.inner, self.meter) = (inner, meter)
    }

    var description: TLSDescription? { inner.description }
    var pending: Int { inner.pending }
    var ownMemory: Int { inner.ownMemory }
    var keepsBuffers: Bool { inner.keepsBuffers }
    var hasRefusedRenegotiation: Bool { inner.hasRefusedRenegotiation }
    func rest() { inner.rest() }

    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        let began = Clocks.threadCPU()
        defer { meter.add(Clocks.threadCPU() - began) }
        return inner.handshake(input, &output)
    }

    func read(
        _ input: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        inner.read(input, into: target, &output)
    }

    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        inner.write(bytes, &output)
    }

    func end(_ output: inout TLSOutput) -> TLSStep { inner.end(&output) }
}
