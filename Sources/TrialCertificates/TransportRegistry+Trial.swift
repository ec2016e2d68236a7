import SocketIO
import Transports

extension TransportRegistry {
    /// All transports of this package, where encrypted servers need no certificate, and clients trust the authority of
    /// this process too. See ``TrialTLS``.
    package static let trial = TransportRegistry.encrypted(by: TLSContexts(TrialTLS()))

    /// The transports of ``trial`` that can be used on this machine. Without OpenSSL, the encrypted ones are left out.
    package static let available = TransportRegistry(
        trial.transports.filter { !$0.isEncrypted || OpenSSL.shared is OpenSSL }
    )
}
