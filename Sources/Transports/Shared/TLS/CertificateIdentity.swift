import Primitives
import TransportAPI

extension TLSCertificate {
    /// The identity of a client with this certificate: its common name; without one its subject, if that is complete;
    /// otherwise the pin of its key. So different clients of one authority never have the same identity by a cut name.
    var identity: Identity {
        let isCut = subject.hasSuffix("…")
        return Identity(commonName ?? (isCut ? pin : subject), claims: ["subject": subject])
    }
}
