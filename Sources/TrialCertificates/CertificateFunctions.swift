// The names are those of OpenSSL.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

import SocketIO

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The functions of OpenSSL that make certificates, loaded at run time. The libraries of this package make none, so their
/// table lacks these. All OpenSSL types are opaque here.
struct CertificateFunctions: Sendable {
    typealias Object = UnsafeMutableRawPointer?
    typealias Constant = UnsafeRawPointer?
    typealias Text = UnsafePointer<CChar>?

    let EVP_PKEY_CTX_new_from_name: @convention(c) (Object, Text, Text) -> Object
    let EVP_PKEY_CTX_free: @convention(c) (Object) -> Void
    let EVP_PKEY_keygen_init: @convention(c) (Object) -> Int32
    let EVP_PKEY_CTX_set_group_name: @convention(c) (Object, Text) -> Int32
    let EVP_PKEY_CTX_set_rsa_keygen_bits: @convention(c) (Object, Int32) -> Int32
    let EVP_PKEY_generate: @convention(c) (Object, UnsafeMutablePointer<Object>?) -> Int32
    let EVP_PKEY_free: @convention(c) (Object) -> Void
    let EVP_sha256: @convention(c) () -> Constant
    let EVP_aes_256_cbc: @convention(c) () -> Constant
    let X509_new: @convention(c) () -> Object
    let X509_set_version: @convention(c) (Object, Int) -> Int32
    let X509_get_serialNumber: @convention(c) (Object) -> Object
    let ASN1_INTEGER_set_uint64: @convention(c) (Object, UInt64) -> Int32
    let X509_getm_notBefore: @convention(c) (Constant) -> Object
    let X509_getm_notAfter: @convention(c) (Constant) -> Object
    let X509_gmtime_adj: @convention(c) (Object, Int) -> Object
    let ASN1_STRING_free: @convention(c) (Object) -> Void
    let X509_set_pubkey: @convention(c) (Object, Object) -> Int32
    let X509_set_issuer_name: @convention(c) (Object, Constant) -> Int32
    let X509_NAME_add_entry_by_txt:
        @convention(c) (Object, Text, Int32, UnsafePointer<UInt8>?, Int32, Int32, Int32) -> Int32
    let X509V3_EXT_conf_nid: @convention(c) (Object, Object, Int32, Text) -> Object
    let X509_add_ext: @convention(c) (Object, Object, Int32) -> Int32
    let X509_EXTENSION_free: @convention(c) (Object) -> Void
    let X509_sign: @convention(c) (Object, Object, Constant) -> Int32
    let PEM_write_bio_X509: @convention(c) (Object, Constant) -> Int32
    let PEM_write_bio_PKCS8PrivateKey: @convention(c) (Object, Constant, Constant, Text, Int32, Object, Object) -> Int32
    let X509_CRL_new: @convention(c) () -> Object
    let X509_CRL_set_version: @convention(c) (Object, Int) -> Int32
    let X509_CRL_set_issuer_name: @convention(c) (Object, Constant) -> Int32
    let X509_CRL_set1_lastUpdate: @convention(c) (Object, Constant) -> Int32
    let X509_CRL_set1_nextUpdate: @convention(c) (Object, Constant) -> Int32
    let X509_CRL_add0_revoked: @convention(c) (Object, Object) -> Int32
    let X509_REVOKED_new: @convention(c) () -> Object
    let X509_REVOKED_set_serialNumber: @convention(c) (Object, Object) -> Int32
    let X509_REVOKED_set_revocationDate: @convention(c) (Object, Object) -> Int32
    let X509_CRL_sign: @convention(c) (Object, Object, Constant) -> Int32
    let PEM_write_bio_X509_CRL: @convention(c) (Object, Constant) -> Int32
    let X509_free: @convention(c) (Object) -> Void
    let X509_get_subject_name: @convention(c) (Constant) -> Object
    let X509_CRL_free: @convention(c) (Object) -> Void
    let BIO_new: @convention(c) (Constant) -> Object
    let BIO_free: @convention(c) (Object) -> Int32
    let BIO_s_mem: @convention(c) () -> Constant
    let BIO_read_ex: @convention(c) (Object, Object, Int, UnsafeMutablePointer<Int>?) -> Int32
    let ERR_peek_last_error: @convention(c) () -> UInt
    let ERR_reason_error_string: @convention(c) (UInt) -> Text

    private static let result = Result<CertificateFunctions, ThrowAwayAuthority.Failure> {
        () throws(ThrowAwayAuthority.Failure) in try CertificateFunctions()
    }

    /// Returns the table, which is loaded once.
    static func loaded() throws(ThrowAwayAuthority.Failure) -> CertificateFunctions { try result.get() }

    private init() throws(ThrowAwayAuthority.Failure) {
        // The library is loaded and initialized there, without a configuration file.
        guard OpenSSL.shared is OpenSSL,
            let library = OpenSSL.names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first
        else { throw .init(description: "OpenSSL 3 is not installed") }
        func load<Function>(_ name: String) throws(ThrowAwayAuthority.Failure) -> Function {
            guard let found = dlsym(library, name) else { throw .init(description: "OpenSSL lacks \(name)") }
            return unsafeBitCast(found, to: Function.self)
        }
        EVP_PKEY_CTX_new_from_name = try load("EVP_PKEY_CTX_new_from_name")
        EVP_PKEY_CTX_free = try load("EVP_PKEY_CTX_free")
        EVP_PKEY_keygen_init = try load("EVP_PKEY_keygen_init")
        EVP_PKEY_CTX_set_group_name = try load("EVP_PKEY_CTX_set_group_name")
        EVP_PKEY_CTX_set_rsa_keygen_bits = try load("EVP_PKEY_CTX_set_rsa_keygen_bits")
        EVP_PKEY_generate = try load("EVP_PKEY_generate")
        EVP_PKEY_free = try load("EVP_PKEY_free")
        EVP_sha256 = try load("EVP_sha256")
        EVP_aes_256_cbc = try load("EVP_aes_256_cbc")
        X509_new = try load("X509_new")
        X509_set_version = try load("X509_set_version")
        X509_get_serialNumber = try load("X509_get_serialNumber")
        ASN1_INTEGER_set_uint64 = try load("ASN1_INTEGER_set_uint64")
        X509_getm_notBefore = try load("X509_getm_notBefore")
        X509_getm_notAfter = try load("X509_getm_notAfter")
        X509_gmtime_adj = try load("X509_gmtime_adj")
        ASN1_STRING_free = try load("ASN1_STRING_free")
        X509_set_pubkey = try load("X509_set_pubkey")
        X509_set_issuer_name = try load("X509_set_issuer_name")
        X509_NAME_add_entry_by_txt = try load("X509_NAME_add_entry_by_txt")
        X509V3_EXT_conf_nid = try load("X509V3_EXT_conf_nid")
        X509_add_ext = try load("X509_add_ext")
        X509_EXTENSION_free = try load("X509_EXTENSION_free")
        X509_sign = try load("X509_sign")
        PEM_write_bio_X509 = try load("PEM_write_bio_X509")
        PEM_write_bio_PKCS8PrivateKey = try load("PEM_write_bio_PKCS8PrivateKey")
        X509_CRL_new = try load("X509_CRL_new")
        X509_CRL_set_version = try load("X509_CRL_set_version")
        X509_CRL_set_issuer_name = try load("X509_CRL_set_issuer_name")
        X509_CRL_set1_lastUpdate = try load("X509_CRL_set1_lastUpdate")
        X509_CRL_set1_nextUpdate = try load("X509_CRL_set1_nextUpdate")
        X509_CRL_add0_revoked = try load("X509_CRL_add0_revoked")
        X509_REVOKED_new = try load("X509_REVOKED_new")
        X509_REVOKED_set_serialNumber = try load("X509_REVOKED_set_serialNumber")
        X509_REVOKED_set_revocationDate = try load("X509_REVOKED_set_revocationDate")
        X509_CRL_sign = try load("X509_CRL_sign")
        PEM_write_bio_X509_CRL = try load("PEM_write_bio_X509_CRL")
        X509_free = try load("X509_free")
        X509_get_subject_name = try load("X509_get_subject_name")
        X509_CRL_free = try load("X509_CRL_free")
        BIO_new = try load("BIO_new")
        BIO_free = try load("BIO_free")
        BIO_s_mem = try load("BIO_s_mem")
        BIO_read_ex = try load("BIO_read_ex")
        ERR_peek_last_error = try load("ERR_peek_last_error")
        ERR_reason_error_string = try load("ERR_reason_error_string")
    }

    /// The text of the last error in the calling thread's queue.
    func errorText() -> String {
        let number = ERR_peek_last_error()
        guard number != 0, let text = ERR_reason_error_string(number) else { return "unknown error" }
        return String(cString: text)
    }
}
