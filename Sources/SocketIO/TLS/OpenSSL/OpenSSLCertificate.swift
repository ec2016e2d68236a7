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

    private let pointer: UnsafeMutableRawPointer
    private let functions: UnsafePointer<csocketio_openssl>

    init(_ pointer: UnsafeMutableRawPointer, _ functions: UnsafePointer<csocketio_openssl>) {
        (self.pointer, self.functions) = (pointer, functions)
    }

    var subject: String { name(functions.pointee.X509_get_subject_name(pointer)) }
    var issuer: String { name(functions.pointee.X509_get_issuer_name(pointer)) }
    var validFrom: String { time(functions.pointee.X509_get0_notBefore(pointer)) }
    var validTo: String { time(functions.pointee.X509_get0_notAfter(pointer)) }
    /// The subject alternative names.
    var names: String { text(of: Self.alternativeNames) }
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
            _ = functions.pointee.SHA256(encoded, encoded.count, digest.baseAddress)
            count = 32
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

    private var commonName: String? {
        var buffer = [CChar](repeating: 0, count: Self.longestField)
        let subject = functions.pointee.X509_get_subject_name(pointer)
        let length = functions.pointee.X509_NAME_get_text_by_NID(subject, Self.commonName, &buffer, Int32(buffer.count))
        guard length > 0 else { return nil }
        // A NUL inside the name would hide the rest of it.
        let bytes = buffer.prefix(Int(length)).map { UInt8(bitPattern: $0) }
        return bytes.contains(0) ? nil : String(decoding: bytes, as: UTF8.self)
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
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.longestField) { buffer, count in
            _ = functions.pointee.BIO_read_ex(stream, buffer.baseAddress, buffer.count, &count)
        }
        return String(decoding: bytes.map { $0 < 0x20 || $0 == 0x7f ? 0x20 : $0 }, as: UTF8.self)
    }
}
