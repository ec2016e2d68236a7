import Transports
import TrialCertificates

/// What a crowd of idle clients may be.
package enum CrowdLimits {
    /// The transports whose clients can be idle: those over streams with ports. Idle UDP clients are not measured: they use no
    /// descriptor of the server, and the answer to a ping may be lost.
    package static let transports = TransportRegistry.available.transports
        .filter { !$0.isDatagram && $0.defaultPort != nil }.map(\.name)
    package static let mostConnections = 1_000_000
    /// The most bytes that a client sends and receives back.
    package static let mostTransferred = 1 << 30
}
