import CSocketIO
import Primitives

/// An X509 that OpenSSL owns.
struct OpenSSLCertificate {
    private static let commonName: Int32 = 13
    private static let alternativeNames: Int32 = 85
    private static let informationAccess: Int32 = 177
    /// XN_FLAG_RFC2253, but characters outside ASCII are not escaped.
    private static let nameFormat: UInt = 0x111_0313
    /// How many bytes of one field are shown.
    private static let longestField = 256
    /// The longest name that is read, in bytes.
    private static let longestName = 255
    /// How many subject alternative names are read.
    private static let mostNames = 64
    /// The kinds of subject alternative names that are read (GENERAL_NAME of openssl/x509v3.h).
    private static let kinds: [Int32: String] = [1: "email", 2: "DNS", 6: "URI", 7: "IP"]

    private let pointer: UnsafeMutableRawPointer
    private let functions: UnsafePointer<csocketio_openssl>

    init(_ pointer: UnsafeMutableRawPointer, _ functions: UnsafePointer<csocketio_openssl>) {
        (self.pointer, self.functions) = (pointer, functions)
    }

    var subject: String { name(functions.pointee.X509_get_subject_name(pointer)) }
    var issuer: String { name(functions.pointee.X509_get_issuer_name(pointer)) }
    var validFrom: String { time(functions.pointee.X509_get0_notBefore(pointer)) }
    var validTo: String { time(functions.pointee.X509_get0_notAfter(pointer)) }
    /// The subject alternative names, each after its kind. They are not taken from a printed text, in which a name could
    /// pretend to be several.
    var names: [String] {
        let list = functions.pointee.X509_get_ext_d2i(pointer, Self.alternativeNames, nil, nil)
        guard let list else { return [] }
        defer { functions.pointee.GENERAL_NAMES_free(list) }
        let names = (0..<max(0, functions.pointee.OPENSSL_sk_num(list))).lazy.compactMap { index -> String? in
            var kind: Int32 = 0
            guard let entry = functions.pointee.OPENSSL_sk_value(list, index),
                let value = functions.pointee.GENERAL_NAME_get0_value(entry, &kind), let word = Self.kinds[kind],
                let name = kind == 7 ? address(value) : name(value)
            else { return nil }
            return "\(word):\(name)"
        }
        return Array(names.prefix(Self.mostNames))
    }

    /// The text of an ASN1_STRING of ASCII characters; `nil` if it has others, or is too long.
    private func name(_ string: UnsafeRawPointer) -> String? {
        let bytes = self.bytes(string)
        guard bytes.count <= Self.longestName, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The text of an IP address in an ASN1_STRING.
    private func address(_ string: UnsafeRawPointer) -> String? {
        let bytes = self.bytes(string)
        switch bytes.count {
        case 4: return bytes.map { String($0) }.joined(separator: ".")
        case 16:
            return stride(from: 0, to: 16, by: 2)
                .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }.joined(separator: ":")
        default: return nil
        }
    }

    private func bytes(_ string: UnsafeRawPointer) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: functions.pointee.ASN1_STRING_get0_data(string),
            count: Int(max(0, functions.pointee.ASN1_STRING_length(string)))
        )
    }
    /// Whether its validity has ended, by the clock of this machine.
    var hasExpired: Bool { functions.pointee.X509_cmp_current_time(functions.pointee.X509_get0_notAfter(pointer)) < 0 }
    /// Whether the certificate says where its issuer's certificate can be loaded (RFC 5280, section 4.2.2.1).
    var namesIssuerFile: Bool { text(of: Self.informationAccess).contains("CA Issuers") }

    /// SHA-256 of the public key.
    var keyDigest: [UInt8] {
        let key = functions.pointee.X509_get_X509_PUBKEY(pointer)
        let length = Int(functions.pointee.i2d_X509_PUBKEY(key, nil))
        guard length > 0 else { return [] }
        let encoded = [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
            var end = buffer.baseAddress
            count = max(0, Int(functions.pointee.i2d_X509_PUBKEY(key, &end)))
        }
        return [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
            let library = functions.pointee.library_context
            let (text, size) = (digest.baseAddress, encoded.count)
            count = functions.pointee.EVP_Q_digest(library, "SHA256", nil, encoded, size, text, nil) == 1 ? 32 : 0
        }
    }

    var description: TLSCertificate {
        TLSCertificate(
            subject: subject,
            commonName: commonName,
            names: names,
            issuer: issuer,
            validFrom: validFrom,
            validTo: validTo,
            keyDigest: keyDigest
        )
    }

    /// The first common name. Certificates store names in several encodings, so it is converted and not only copied.
    private var commonName: String? {
        let functions = functions.pointee
        let subject = functions.X509_get_subject_name(pointer)
        let index = functions.X509_NAME_get_index_by_NID(subject, Self.commonName, -1)
        guard index >= 0, let entry = functions.X509_NAME_get_entry(subject, index),
            let value = functions.X509_NAME_ENTRY_get_data(entry)
        else { return nil }
        var text: UnsafeMutablePointer<UInt8>?
        let length = Int(functions.ASN1_STRING_to_UTF8(&text, value))
        guard length >= 0, let text else { return nil }
        defer { functions.CRYPTO_free(text, nil, 0) }
        let bytes = UnsafeBufferPointer(start: text, count: length)
        // A NUL inside the name would hide the rest of it from programs that stop there.
        guard !bytes.isEmpty, length <= Self.longestName, !bytes.contains(0) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    private func name(_ name: UnsafeMutableRawPointer?) -> String {
        printed { functions.pointee.X509_NAME_print_ex($0, name, 0, Self.nameFormat) >= 0 }
    }

    private func text(of kind: Int32) -> String {
        let location = functions.pointee.X509_get_ext_by_NID(pointer, kind, -1)
        guard location >= 0, let field = functions.pointee.X509_get_ext(pointer, location) else { return "" }
        return printed { functions.pointee.X509V3_EXT_print($0, field, 0, 0) == 1 }
    }

    private func time(_ time: UnsafeRawPointer?) -> String {
        var calendar = tm()
        guard functions.pointee.ASN1_TIME_to_tm(time, &calendar) == 1 else { return "an unreadable time" }
        let date = "\(Int(calendar.tm_year) + 1900)-\(digits(calendar.tm_mon + 1))-\(digits(calendar.tm_mday))"
        return "\(date) \(digits(calendar.tm_hour)):\(digits(calendar.tm_min)):\(digits(calendar.tm_sec))"
    }

    private func digits(_ number: Int32) -> String {
        number < 10 ? "0\(number)" : "\(number)"
    }

    /// Returns what `print` writes to a stream in memory, at most ``longestField`` bytes, on one line.
    private func printed(_ print: (UnsafeMutableRawPointer) -> Bool) -> String {
        guard let stream = functions.pointee.BIO_new(functions.pointee.BIO_s_mem()) else { return "" }
        defer { _ = functions.pointee.BIO_free(stream) }
        guard print(stream) else { return "" }
        // One byte more shows whether the text is longer.
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.longestField + 1) { buffer, count in
            _ = functions.pointee.BIO_read_ex(stream, buffer.baseAddress, buffer.count, &count)
        }
        let shown = bytes.prefix(Self.longestField).map { $0 < 0x20 || $0 == 0x7f ? 0x20 : $0 }
        return String(decoding: shown, as: UTF8.self) + (bytes.count > Self.longestField ? "…" : "")
    }
}
