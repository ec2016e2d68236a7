/// An authority that exists for one run, for tests and measurements. No other process trusts it, and its key is in no file.
package final class ThrowAwayAuthority {
    /// The content of a certificate.
    package struct Request: Sendable {
        /// The kinds of keys.
        package enum Key: Sendable, Hashable {
            /// An elliptic curve key (P-256), the fastest to sign with.
            case ec
            /// An RSA key of this many bits.
            case rsa(Int)
        }

        /// The common name of the subject.
        package var commonName: String
        /// The subject alternative names: `DNS:localhost`, `IP:127.0.0.1`.
        package var names: [String]
        /// When the validity begins, in seconds from now.
        package var from = -3600
        /// When the validity ends, in seconds from now.
        package var to = 86_400
        /// The kind of its key.
        package var key = Key.ec
        /// Whether the certificate says where its issuer's certificate can be loaded.
        package var namesIssuerFile = false

        /// A certificate for `names`, valid for a day.
        package init(_ commonName: String, names: [String] = []) {
            (self.commonName, self.names) = (commonName, names)
        }
    }

    /// A certificate and its private key, in PEM format.
    package struct Issued: Sendable {
        /// The certificate.
        package var certificate: String
        /// The private key.
        package var key: String
        /// The serial number.
        package var serial: UInt64
    }

    /// OpenSSL could not make a certificate.
    package struct Failure: Error, CustomStringConvertible {
        /// The call that failed, and the reason.
        package var description: String
    }

    private let library: CertificateFunctions
    private let key: UnsafeMutableRawPointer
    private let own: UnsafeMutableRawPointer
    private var lastSerial: UInt64
    /// The certificate of the authority, in PEM format.
    package let certificate: String
    /// The serial number of that certificate.
    package let serial: UInt64

    /// Makes an authority.
    ///
    /// - Parameters:
    ///   - commonName: the name of the authority.
    ///   - parent: the authority that signs this one's certificate; `nil` for an authority that signs its own.
    ///   - isWeak: whether its key is too short for today's rules, for tests.
    package init(_ commonName: String, under parent: ThrowAwayAuthority? = nil, isWeak: Bool = false) throws(Failure) {
        let library = try CertificateFunctions.loaded()
        self.library = library
        let key = try Self.makeKey(isWeak ? .rsa(1024) : .ec, library)
        serial = UInt64.random(in: 1...1 << 40)
        lastSerial = serial
        let own: UnsafeMutableRawPointer
        do throws(Failure) {
            own = try Self.sign(
                Request(commonName),
                key,
                serial,
                isAuthority: true,
                issuer: parent?.own,
                parent?.key ?? key,
                library
            )
        } catch {
            library.EVP_PKEY_free(key)
            throw error
        }
        self.key = key
        self.own = own
        certificate = Self.text(library) { library.PEM_write_bio_X509($0, own) }
    }

    deinit {
        library.X509_free(own)
        library.EVP_PKEY_free(key)
    }

    /// Issues a certificate.
    ///
    /// - Parameter password: encrypts the private key, if it is not `nil`.
    package func issue(_ request: Request, password: String? = nil) throws(Failure) -> Issued {
        let subjectKey = try Self.makeKey(request.key, library)
        defer { library.EVP_PKEY_free(subjectKey) }
        lastSerial += 1
        let made = try Self.sign(request, subjectKey, lastSerial, isAuthority: false, issuer: own, key, library)
        defer { library.X509_free(made) }
        return Issued(
            certificate: Self.text(library) { library.PEM_write_bio_X509($0, made) },
            key: Self.text(library) {
                let cipher = password == nil ? nil : library.EVP_aes_256_cbc()
                let count = Int32(password?.utf8.count ?? 0)
                return library.PEM_write_bio_PKCS8PrivateKey($0, subjectKey, cipher, password, count, nil, nil)
            },
            serial: lastSerial
        )
    }

    /// Makes a certificate that no authority has issued: it has signed itself.
    package static func selfSigned(_ request: Request) throws(Failure) -> Issued {
        let library = try CertificateFunctions.loaded()
        let key = try makeKey(request.key, library)
        defer { library.EVP_PKEY_free(key) }
        let serial = UInt64.random(in: 1...1 << 40)
        let made = try sign(request, key, serial, isAuthority: false, issuer: nil, key, library)
        defer { library.X509_free(made) }
        return Issued(
            certificate: text(library) { library.PEM_write_bio_X509($0, made) },
            key: text(library) { library.PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) },
            serial: serial
        )
    }

    /// Returns a list that revokes these certificates, in PEM format, valid for a day.
    package func revoke(_ serials: [UInt64]) throws(Failure) -> String {
        guard let list = library.X509_CRL_new(), let past = library.X509_gmtime_adj(nil, -60),
            let future = library.X509_gmtime_adj(nil, 86_400)
        else { throw failure("X509_CRL_new") }
        defer {
            library.X509_CRL_free(list)
            library.ASN1_STRING_free(past)
            library.ASN1_STRING_free(future)
        }
        _ = library.X509_CRL_set_version(list, 1)
        _ = library.X509_CRL_set_issuer_name(list, library.X509_get_subject_name(own))
        _ = library.X509_CRL_set1_lastUpdate(list, past)
        _ = library.X509_CRL_set1_nextUpdate(list, future)
        for serial in serials {
            // Takes the number from a certificate, because that is the only number that this package can make.
            guard let entry = library.X509_REVOKED_new(), let holder = library.X509_new() else {
                throw failure("X509_REVOKED_new")
            }
            let number = library.X509_get_serialNumber(holder)
            _ = library.ASN1_INTEGER_set_uint64(number, serial)
            _ = library.X509_REVOKED_set_serialNumber(entry, number)
            _ = library.X509_REVOKED_set_revocationDate(entry, past)
            _ = library.X509_CRL_add0_revoked(list, entry)
            library.X509_free(holder)
        }
        guard library.X509_CRL_sign(list, key, library.EVP_sha256()) > 0 else { throw failure("X509_CRL_sign") }
        return Self.text(library) { library.PEM_write_bio_X509_CRL($0, list) }
    }

    private func failure(_ call: String) -> Failure { Self.failure(call, library) }

    private static func failure(_ call: String, _ library: CertificateFunctions) -> Failure {
        Failure(description: "\(call): \(library.errorText())")
    }

    private static func makeKey(_ kind: Request.Key, _ library: CertificateFunctions) throws(Failure)
        -> UnsafeMutableRawPointer
    {
        let name = kind == .ec ? "EC" : "RSA"
        guard let generator = library.EVP_PKEY_CTX_new_from_name(nil, name, nil) else {
            throw failure("EVP_PKEY_CTX_new_from_name", library)
        }
        defer { library.EVP_PKEY_CTX_free(generator) }
        _ = library.EVP_PKEY_keygen_init(generator)
        switch kind {
        case .ec: _ = library.EVP_PKEY_CTX_set_group_name(generator, "P-256")
        case .rsa(let bits): _ = library.EVP_PKEY_CTX_set_rsa_keygen_bits(generator, Int32(bits))
        }
        var key: UnsafeMutableRawPointer?
        guard library.EVP_PKEY_generate(generator, &key) == 1, let key else {
            throw failure("EVP_PKEY_generate", library)
        }
        return key
    }

    private static func sign(
        _ request: Request,
        _ key: UnsafeMutableRawPointer,
        _ serial: UInt64,
        isAuthority: Bool,
        issuer: UnsafeMutableRawPointer?,
        _ issuerKey: UnsafeMutableRawPointer,
        _ library: CertificateFunctions
    ) throws(Failure) -> UnsafeMutableRawPointer {
        guard let made = library.X509_new() else { throw failure("X509_new", library) }
        _ = library.X509_set_version(made, 2)
        _ = library.ASN1_INTEGER_set_uint64(library.X509_get_serialNumber(made), serial)
        _ = library.X509_gmtime_adj(library.X509_getm_notBefore(made), request.from)
        _ = library.X509_gmtime_adj(library.X509_getm_notAfter(made), request.to)
        _ = library.X509_set_pubkey(made, key)
        let subject = library.X509_get_subject_name(made)
        let name = Array(request.commonName.utf8)
        // MBSTRING_UTF8
        _ = library.X509_NAME_add_entry_by_txt(subject, "CN", 0x1000, name, Int32(name.count), -1, 0)
        _ = library.X509_set_issuer_name(made, issuer.map { library.X509_get_subject_name($0) } ?? subject)
        // NID_basic_constraints, NID_key_usage, NID_subject_alt_name, NID_info_access
        var extensions: [(Int32, String)] =
            isAuthority
            ? [(87, "critical,CA:TRUE"), (83, "critical,keyCertSign,cRLSign")]
            : [(87, "CA:FALSE")]
        if !request.names.isEmpty { extensions.append((85, request.names.joined(separator: ","))) }
        if request.namesIssuerFile { extensions.append((177, "caIssuers;URI:http://ca.example/issuer.crt")) }
        for (kind, value) in extensions {
            guard let made509 = library.X509V3_EXT_conf_nid(nil, nil, kind, value) else {
                library.X509_free(made)
                throw failure("X509V3_EXT_conf_nid of '\(value)'", library)
            }
            _ = library.X509_add_ext(made, made509, -1)
            library.X509_EXTENSION_free(made509)
        }
        guard library.X509_sign(made, issuerKey, library.EVP_sha256()) > 0 else {
            library.X509_free(made)
            throw failure("X509_sign", library)
        }
        return made
    }

    /// Returns what `write` writes to a stream in memory.
    private static func text(_ library: CertificateFunctions, _ write: (UnsafeMutableRawPointer) -> Int32) -> String {
        guard let stream = library.BIO_new(library.BIO_s_mem()) else { return "" }
        defer { _ = library.BIO_free(stream) }
        guard write(stream) == 1 else { return "" }
        let bytes = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            _ = library.BIO_read_ex(stream, buffer.baseAddress, buffer.count, &count)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
