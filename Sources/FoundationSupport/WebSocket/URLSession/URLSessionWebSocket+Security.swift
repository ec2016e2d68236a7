#if canImport(Security)
import CryptoKit
import Foundation
import Primitives
import Security
import SocketIO
import TransportAPI
import Transports

/// The certificate of a client with its key, as the keychain has it.
struct ClientIdentity: @unchecked Sendable {
    // Unchecked, because a SecIdentity never changes.
    let value: SecIdentity
}

extension TransportRegistry {
    /// Lets the system speak WebSocket, as ``registerSystemWebSocket()`` does, with a certificate for servers that require one of
    /// their clients.
    ///
    /// - Parameter identity: Returns the certificate and its key, such as one of the keychain or of a PKCS #12 file, when a
    ///   server asks for it. `nil` for none. A server to which another one has redirected does not get it.
    public mutating func registerSystemWebSocket(identity: @escaping @Sendable () -> SecIdentity?) {
        registerWebSocket(.standard) {
            URLSessionWebSocket.factory { socket in
                guard let identity = identity() else { return }
                let client = ClientIdentity(value: identity)
                socket.state.withLock { $0.identity = client }
            }
        }
    }
}

extension URLSessionWebSocket {
    /// Answers the system's questions about the server's certificate and for that of this side.
    @objc(URLSession:task:didReceiveChallenge:completionHandler:)
    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        switch challenge.protectionSpace.authenticationMethod {
        case NSURLAuthenticationMethodServerTrust:
            // A proxy of the system has its own certificate, which the system judges.
            guard let trust = challenge.protectionSpace.serverTrust, !challenge.protectionSpace.isProxy() else {
                return completionHandler(.performDefaultHandling, nil)
            }
            if let refusal = refusal(of: trust) {
                state.withLock { $0.refusal = refusal }
                return completionHandler(.cancelAuthenticationChallenge, nil)
            }
            state.withLock { $0.isVerified = request.trust.verifiesServer }
            completionHandler(.useCredential, URLCredential(trust: trust))
        case NSURLAuthenticationMethodClientCertificate:
            guard request.presentsIdentity, let identity = state.withLock(\.identity) else {
                return completionHandler(.performDefaultHandling, nil)
            }
            let credential = URLCredential(identity: identity.value, certificates: nil, persistence: .none)
            completionHandler(.useCredential, credential)
        default: completionHandler(.performDefaultHandling, nil)
        }
    }

    private func refusal(of trust: SecTrust) -> TLSFailure? {
        guard request.trust.verifiesServer else { return nil }
        if let authorities = request.trust.authorities {
            let anchors = authorities.compactMap { SecCertificateCreateWithData(nil, Data($0) as CFData) }
            guard anchors.count == authorities.count else {
                return TLSFailure(.unknownIssuer, "a certificate of ca cannot be read by the system")
            }
            SecTrustSetAnchorCertificates(trust, anchors as CFArray)
            SecTrustSetAnchorCertificatesOnly(trust, true)
        }
        var error: CFError?
        let isTrusted = SecTrustEvaluateWithError(trust, &error)
        let certificates = SecTrustCopyCertificateChain(trust) as? [SecCertificate] ?? []
        var chain = ServerChain(host: request.host)
        chain.isAddress =
            request.host.allSatisfy { $0.isHexDigit || $0 == "." || $0 == ":" }
            && request.host.contains { ".:".contains($0) }
        if !isTrusted {
            // -67843 is errSecNotTrusted.
            chain.status = error.map { CFErrorGetCode($0) } ?? -67843
            chain.explanation = error.flatMap { CFErrorCopyDescription($0) as String? } ?? ""
        }
        if let own = certificates.first {
            let subject = SecCertificateCopyNormalizedSubjectSequence(own) as Data?
            chain.isSelfSigned = subject != nil && subject == SecCertificateCopyNormalizedIssuerSequence(own) as Data?
        }
        chain.keyDigests = certificates.compactMap(Self.keyDigest)
        return request.trust.refusal(of: chain)
    }

    /// SHA-256 of the public key of a certificate; `nil` for a kind of key whose SubjectPublicKeyInfo cannot be rebuilt.
    private static func keyDigest(_ certificate: SecCertificate) -> [UInt8]? {
        guard let key = SecCertificateCopyKey(certificate),
            let bits = SecKeyCopyExternalRepresentation(key, nil) as Data?,
            let attributes = SecKeyCopyAttributes(key) as? [CFString: Any],
            let type = attributes[kSecAttrKeyType] as? String
        else { return nil }
        let size = attributes[kSecAttrKeySizeInBits] as? Int
        let kind: PublicKeyInfo.Kind
        if type == kSecAttrKeyTypeRSA as String {
            kind = .rsa
        } else if type == kSecAttrKeyTypeECSECPrimeRandom as String {
            switch size {
            case 256: kind = .p256
            case 384: kind = .p384
            case 521: kind = .p521
            default: return nil
            }
        } else {
            return nil
        }
        return Array(SHA256.hash(data: PublicKeyInfo.bytes(kind, [UInt8](bits))))
    }
}
#endif
