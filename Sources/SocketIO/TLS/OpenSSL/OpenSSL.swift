import CSocketIO
import Primitives

/// OpenSSL 3, loaded at run time. So the package builds without its headers, and runs without it as long as no
/// connection is encrypted.
package final class OpenSSL: TLSProvider, @unchecked Sendable {
    // Unchecked, because the pointers to functions never change.

    /// The names under which it is looked for.
    #if canImport(Darwin)
    package static let names = [
        "libssl.3.dylib", "/opt/homebrew/opt/openssl@3/lib/libssl.3.dylib",
        "/usr/local/opt/openssl@3/lib/libssl.3.dylib",
    ]
    #else
    package static let names = ["libssl.so.3"]
    #endif

    /// The system's OpenSSL, or a provider that says what to install.
    package static let shared: any TLSProvider = provider(names)

    /// Loads the first library of these names. Returns a provider that says what to install if there is none.
    package static func provider(_ names: [String]) -> any TLSProvider {
        guard let library = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first else {
            return MissingTLS(
                sentence: MissingTLS.advice("OpenSSL 3 (\(names.joined(separator: ", "))) is not installed")
            )
        }
        let functions = UnsafeMutablePointer<csocketio_openssl>.allocate(capacity: 1)
        if let missing = csocketio_load_openssl(library, functions) {
            functions.deallocate()
            let sentence =
                "the installed OpenSSL is not version 3 or is incomplete: it lacks \(String(cString: missing))"
            return MissingTLS(sentence: MissingTLS.advice(sentence))
        }
        return OpenSSL(functions)
    }

    /// The functions, which live as long as the process.
    let functions: UnsafePointer<csocketio_openssl>

    private init(_ functions: UnsafePointer<csocketio_openssl>) {
        self.functions = functions
        Self.callbackFunctions.withLock { $0 = functions }
    }

    /// The version that was found, as in "3.0.19".
    package var version: String {
        let versionString: Int32 = 6  // OPENSSL_VERSION_STRING of crypto.h
        return functions.pointee.OpenSSL_version(versionString).map { String(cString: $0) } ?? "3"
    }

    package var readsFiles: Bool { true }

    package func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        try OpenSSLContext(settings, self, password: password)
    }

    /// The text of the first error in the calling thread's queue.
    func errorText(last: Bool = false) -> String {
        let number = last ? functions.pointee.ERR_peek_last_error() : functions.pointee.ERR_peek_error()
        guard number != 0, let text = functions.pointee.ERR_reason_error_string(number) else { return "unknown error" }
        return String(cString: text)
    }

    /// The functions for callbacks from OpenSSL, which cannot capture them.
    private static let callbackFunctions = Locked<UnsafePointer<csocketio_openssl>?>(nil)

    /// Returns the owner of an SSL, inside a callback from OpenSSL.
    static func connection(of connection: UnsafeRawPointer?) -> OpenSSLConnection? {
        guard let functions = callbackFunctions.withLock({ $0 }), let connection,
            let data = functions.pointee.SSL_get_ex_data(connection, 0)
        else { return nil }
        return Unmanaged<OpenSSLConnection>.fromOpaque(data).takeUnretainedValue()
    }

    /// Returns the owner of the SSL whose peer is being verified, inside a callback from OpenSSL.
    static func connection(verifying verification: UnsafeRawPointer?) -> OpenSSLConnection? {
        guard let functions = callbackFunctions.withLock({ $0 }), let verification else { return nil }
        let index = functions.pointee.SSL_get_ex_data_X509_STORE_CTX_idx()
        return connection(of: functions.pointee.X509_STORE_CTX_get_ex_data(verification, index))
    }
}

/// Stands for a TLS library that is not installed. Every encrypted connection fails with its sentence.
package struct MissingTLS: TLSProvider {
    let sentence: String

    static func advice(_ problem: String) -> String {
        "encryption needs OpenSSL 3, but \(problem); install it, for example by 'apt-get install libssl3', "
            + "'dnf install openssl-libs' (from Fedora 45 on 'openssl3-libs') or 'brew install openssl@3'"
    }

    package var readsFiles: Bool { false }

    package func makeContext(
        _: TLSSettings,
        password _: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        throw .noLibrary(sentence)
    }
}
