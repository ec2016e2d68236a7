import CSocketIO
import Foundation
import TestSupport
import TransportAPI
import TrialCertificates

@testable import SocketIO
@testable import Transports

/// OpenSSL with changes that no option makes, for peers that behave as old ones do.
struct ChangedOpenSSL: TLSProvider {
    /// Called with each context.
    var change: @Sendable (OpenSSLContext) -> Void

    var readsFiles: Bool { true }

    func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        let context = try OpenSSL.shared.makeContext(settings, password: password)
        if let context = context as? OpenSSLContext { change(context) }
        return context
    }

    /// Allows TLS 1.2 at most, by SSL_CTRL_SET_MAX_PROTO_VERSION.
    static let tls12 = ChangedOpenSSL { context in
        _ = context.library.functions.pointee.SSL_CTX_ctrl(context.pointer, 124, 0x0303, nil)
    }

    /// Checks certificates of peers as at another time, in seconds from now. The system's clock stays what it is.
    static func checking(_ side: TLSSettings.Side, at seconds: Int) -> ChangedOpenSSL {
        ChangedOpenSSL { context in
            typealias Parameters = @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?
            typealias SetTime = @convention(c) (UnsafeMutableRawPointer?, Int) -> Void
            guard context.settings.side == side,
                let parameters = openSSLFunction("SSL_CTX_get0_param", as: Parameters.self),
                let setTime = openSSLFunction("X509_VERIFY_PARAM_set_time", as: SetTime.self)
            else { return }
            setTime(parameters(context.pointer), time(nil) + seconds)
        }
    }

    /// Allows one cipher of TLS 1.2 only.
    static func cipher(_ name: String) -> ChangedOpenSSL {
        ChangedOpenSSL { context in
            tls12.change(context)
            typealias Function = @convention(c) (UnsafeMutableRawPointer, UnsafePointer<CChar>) -> Int32
            _ = openSSLFunction("SSL_CTX_set_cipher_list", as: Function.self)?(context.pointer, name)
        }
    }

    /// Replaces the certificate of servers by one that OpenSSL finds too weak to load. Both must have keys of the same kind.
    static func weak(_ issued: ThrowAwayAuthority.Issued) -> ChangedOpenSSL {
        ChangedOpenSSL { context in
            guard context.settings.side == .server else { return }
            let functions = context.library.functions.pointee
            functions.SSL_CTX_set_security_level(context.pointer, 0)
            for (text, isKey) in [(issued.certificate, false), (issued.key, true)] {
                let bytes = Array(text.utf8)
                let stream = functions.BIO_new_mem_buf(bytes, Int32(bytes.count))
                if isKey {
                    let key = functions.PEM_read_bio_PrivateKey_ex(
                        stream,
                        nil,
                        nil,
                        nil,
                        functions.library_context,
                        nil
                    )
                    _ = functions.SSL_CTX_use_PrivateKey(context.pointer, key)
                    functions.EVP_PKEY_free(key)
                } else {
                    let certificate = functions.PEM_read_bio_X509(stream, nil, nil, nil)
                    _ = functions.SSL_CTX_use_certificate(context.pointer, certificate)
                    functions.X509_free(certificate)
                }
                withExtendedLifetime(bytes) { _ = functions.BIO_free(stream) }
            }
        }
    }
}

extension TransportRegistry {
    /// The transports of ``standard`` over another TLS library.
    static func over(
        _ provider: any TLSProvider,
        checkInterval: Duration = .seconds(1),
        idleCheckInterval: Duration = .seconds(10),
        password: (@Sendable (String) -> String?)? = nil
    ) -> TransportRegistry {
        let contexts = TLSContexts(provider, password: password)
        var security = StreamSecurity(contexts: contexts)
        security.checkInterval = checkInterval
        security.idleCheckInterval = idleCheckInterval
        var securityForHTTP = security
        securityForHTTP.protocols = ["http/1.1"]
        return TransportRegistry(
            TransportRegistry.standard.transports.filter { !$0.isEncrypted } + [
                .tcp(security), .webSocket(compressor: nil, securityForHTTP), .mqtt(security),
                .mqttWebSocket(securityForHTTP), .udp(security),
            ]
        )
    }
}
