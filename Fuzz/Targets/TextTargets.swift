@testable import Codecs
@testable import Primitives
@testable import Protocols
@testable import TransportAPI
@testable import Transports

/// Reads a URL, prints it and reads it again. Every transport reads its options.
func fuzzEndpoint(_ bytes: [UInt8]) throws {
    do throws(TransportError) {
        var endpoint = try Endpoint(String(decoding: bytes, as: UTF8.self))
        _ = try? TransportRegistry.standard.transport(for: endpoint, on: .shared)
        endpoint.user = nil
        endpoint.password = nil
        let url = endpoint.description
        guard url.utf8.count <= Endpoint.maximumLength else { return }
        try checkSame(endpoint, url)
    } catch {
        try ensure(error.code == .invalidConfiguration && !error.reason.isEmpty, "\(error)")
    }
}

private func checkSame(_ endpoint: Endpoint, _ url: String) throws(TransportError) {
    // This code is not among the expected ones, so the error becomes a failure.
    func fail(_ what: String) -> TransportError { TransportError(.systemError, .configure, "\(url): \(what)") }
    let again: Endpoint
    do throws(TransportError) { again = try Endpoint(url) } catch { throw fail("\(error)") }
    // The printed form has no secrets.
    let hidden = ["header", "query", "proxy", "ca", "certificate", "key", "crl", "proxy-ca"]
    let hidesSomething = endpoint.options.contains { hidden.contains($0.name) }
    // A header is printed without its colon, and one without a colon is not printed.
    func withoutHeaders(_ endpoint: Endpoint) -> String {
        var endpoint = endpoint
        endpoint.options.removeAll { $0.name == "header" }
        return endpoint.description
    }
    guard hidesSomething ? withoutHeaders(again) == withoutHeaders(endpoint) : again == endpoint else {
        throw fail("is read as \(again)")
    }
}

func fuzzPercentEncoding(_ bytes: [UInt8]) throws {
    let text = String(decoding: bytes, as: UTF8.self)
    // URLs with control characters are refused earlier.
    guard !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) else { return }
    if let decoded = try? PercentEncoding.decode(text[...], key: "key") {
        let again = try PercentEncoding.decode(PercentEncoding.encode(decoded)[...], key: "key")
        try ensure(again.utf8.elementsEqual(decoded.utf8), "\(decoded.debugDescription) is read as \(again)")
    }
    let encoded = PercentEncoding.encode(text)
    try ensure(encoded.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }, encoded)
    let decoded = try PercentEncoding.decode(encoded[...], key: "key")
    try ensure(decoded.utf8.elementsEqual(text.utf8), "\(text.debugDescription) is read as \(decoded)")
}

/// Reads a configuration file. It is refused with a short reason, or transports accept it.
func fuzzConfiguration(_ bytes: [UInt8]) throws {
    do throws(TransportError) {
        let configuration = try TransportConfiguration(json: bytes)
        guard !configuration.endpoints.isEmpty else { throw .configuration("endpoints", "") }
        _ = try configuration.transports(on: .shared)
        _ = "\(configuration)"
    } catch {
        try ensure(error.code == .invalidConfiguration && error.phase == .configure, "\(error)")
        try ensure(error.reason.utf8.count < 4096, "a reason of \(error.reason.utf8.count) bytes")
    }
}

/// Checks that the validators of UTF-8 agree with the standard library, on whole text and in slices.
func fuzzUTF8(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var slicing = Slicing(input.choice())
    let rest = Array(input.rest)
    let isText = String(validating: rest, as: UTF8.self) != nil
    try ensure(rest.withUnsafeBytes { UTF8Validator.isValid($0) } == isText, "whole: not \(isText)")
    var validator = UTF8Validator()
    let accepted = slicing.slices(of: rest[...]).allSatisfy { $0.withUnsafeBytes { validator.accept($0) } }
    try ensure((accepted && validator.isComplete) == isText, "sliced: not \(isText)")
    let invalid = rest.withUnsafeBufferPointer { firstInvalidUTF8($0) }
    try ensure((invalid == nil) == isText, "the codecs say \(invalid as Any)")
    let blocks = rest.withUnsafeBufferPointer { UTF8Blocks.areWellFormed($0) }
    try ensure(blocks == isText, "in blocks: not \(isText)")
}

/// Checks that Base64 decodes its own encoding, and that bytes have only one encoding with padding.
func fuzzBase64(_ bytes: [UInt8]) throws {
    let text = Base64.encode(bytes)
    try ensure(text.withUnsafeBufferPointer(Base64.decode) == bytes, "decoding does not return the encoded bytes")
    guard let decoded = bytes.withUnsafeBufferPointer(Base64.decode) else { return }
    let digits = Base64.encode(decoded).filter { $0 != UInt8(ascii: "=") }
    let given = bytes.filter { $0 != UInt8(ascii: "=") }.map { $0 == 0x2d ? 0x2b : $0 == 0x5f ? 0x2f : $0 }
    // Without padding, the unused bits are ignored.
    let whole = bytes.last == UInt8(ascii: "=") ? given.count : given.count / 4 * 4
    try ensure(digits.prefix(whole) == given.prefix(whole), "bytes have two encodings with padding")
}
