import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import FoundationSupport
@testable import Transports

@Suite("Decisions about the server's certificate")
struct TrustPolicyTests {
    private let chain = ServerChain(host: "chat.example", keyDigests: [[1], [2]])

    @Test("A trusted chain is accepted, and with pins only if one of its keys is among them")
    func pins() {
        #expect(TrustPolicy().refusal(of: chain) == nil)
        #expect(TrustPolicy(pins: [[2], [9]]).refusal(of: chain) == nil)
        let refusal = TrustPolicy(pins: [[9]]).refusal(of: chain)
        #expect(refusal?.problem == .pinMismatch && refusal?.sentence.contains("sha256/AQ==, sha256/Ag==") == true)
        #expect(TrustPolicy(pins: [[9]]).refusal(of: ServerChain(host: "chat.example"))?.problem == .pinMismatch)
        #expect(TrustPolicy(verifiesServer: false).refusal(of: ServerChain(host: "h", status: -67818)) == nil)
    }

    @Test(
        "Each problem of a chain is the problem that OpenSSL's checks report, and a pin does not replace trust",
        arguments: [
            (-67818, false, false, .expired), (-67819, false, false, .notYetValid), (-67820, false, false, .revoked),
            (-67602, false, false, .wrongHost), (-67602, true, false, .wrongAddress),
            (-67843, false, false, .unknownIssuer), (-67843, false, true, .selfSigned),
            (-25318, false, false, .unknownIssuer), (-67635, false, false, .noRevocationList),
            (-67609, false, false, .invalidCertificate),
        ] as [(Int, Bool, Bool, TLSProblem)]
    )
    func problems(status: Int, isAddress: Bool, isSelfSigned: Bool, problem: TLSProblem) throws {
        var chain = chain
        (chain.status, chain.isAddress, chain.isSelfSigned) = (status, isAddress, isSelfSigned)
        chain.explanation = "the system's words"
        let refusal = try #require(TrustPolicy(pins: [[1]]).refusal(of: chain))
        #expect(refusal.problem == problem && refusal.sentence.contains("the system's words"))
        let error = TransportError(refusal, wasOpen: false)
        #expect(error.code == .certificateRejected && error.phase == .secure && error.tlsProblem == problem)
    }

    @Test("The bits of a key become the SubjectPublicKeyInfo over which pins are made")
    func keyInfo() throws {
        let point = [UInt8](repeating: 4, count: 65)
        let header: [UInt8] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ]
        #expect(PublicKeyInfo.bytes(.p256, point) == header + point)
        let rsa = [UInt8](repeating: 5, count: 270)
        let rsaHeader: [UInt8] = [
            0x30, 0x82, 0x01, 0x22, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05,
            0x00, 0x03, 0x82, 0x01, 0x0f, 0x00,
        ]
        #expect(PublicKeyInfo.bytes(.rsa, rsa) == rsaHeader + rsa)
        #expect(PublicKeyInfo.bytes(.p384, [UInt8](repeating: 4, count: 97)).prefix(4) == [0x30, 0x76, 0x30, 0x10])
        #expect(
            PublicKeyInfo.bytes(.p521, [UInt8](repeating: 4, count: 133)).prefix(5) == [0x30, 0x81, 0x9b, 0x30, 0x10]
        )
    }

    @Test("Certificates are read from PEM, and a damaged text is refused")
    func pem() {
        let one = "-----BEGIN CERTIFICATE-----\r\nAQID\r\nBAU=\r\n-----END CERTIFICATE-----\r\n"
        #expect(PEMCertificates.read("subject=x\n" + one + one) == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]])
        for text in [
            "", "AQID", "-----BEGIN CERTIFICATE-----\nAQID\n",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\n" + one, "-----END CERTIFICATE-----",
            String(repeating: one, count: PEMCertificates.most + 1),
        ] {
            #expect(PEMCertificates.read(text) == nil)
        }
    }

    private typealias Row = (WebSocketTaskFailure.Domain, Int, TransportError.Code, TransportError.Code)

    @Test(
        "Each error of the system is the error that this package's WebSocket has, before the connection is open and after"
    )
    func errors() {
        let rows: [Row] = [
            (.url, -1001, .timedOut, .connectionLost), (.url, -1003, .nameNotFound, .nameNotFound),
            (.url, -1006, .resolverFailed, .resolverFailed), (.url, -1004, .refused, .refused),
            (.url, -1005, .connectionLost, .connectionLost), (.url, -1009, .networkDown, .networkDown),
            (.url, -1020, .networkDown, .networkDown), (.url, -999, .cancelled, .cancelled),
            (.url, -1011, .handshakeFailed, .handshakeFailed), (.url, -1022, .unsupported, .unsupported),
            (.url, -1200, .secureHandshakeFailed, .connectionLost),
            (.url, -1202, .certificateRejected, .certificateRejected),
            (.url, -1203, .certificateRejected, .certificateRejected),
            (.url, -1204, .certificateRejected, .certificateRejected),
            (.url, -1205, .authenticationFailed, .authenticationFailed),
            (.url, -1206, .authenticationFailed, .authenticationFailed),
            (.url, -1000, .invalidConfiguration, .invalidConfiguration), (.url, -1002, .unsupported, .unsupported),
            (.url, -1, .systemError, .connectionLost),
            (.posix, Int(ECONNRESET), .connectionReset, .connectionReset),
            (.posix, Int(ENOTCONN), .connectionReset, .connectionLost),
            (.posix, Int(ECONNABORTED), .connectionLost, .connectionLost),
            (.posix, Int(ENETDOWN), .networkDown, .networkDown),
            (.posix, Int(EHOSTUNREACH), .unreachable, .unreachable),
            (.posix, Int(EMSGSIZE), .messageTooLarge, .messageTooLarge),
            (.status, -9836, .secureHandshakeFailed, .secureHandshakeFailed),
            (.status, -9843, .certificateRejected, .certificateRejected),
            (.other("Pigeon"), 7, .systemError, .systemError),
        ]
        for (domain, code, early, late) in rows {
            let failure = WebSocketTaskFailure(domain: domain, code: code)
            #expect(failure.error(host: "chat.example", wasOpen: false).code == early, "\(failure)")
            #expect(failure.error(host: "chat.example", wasOpen: true).code == late, "\(failure)")
        }
        #expect(WebSocketTaskFailure(URLError(.cannotFindHost)).code == -1003)
        #expect(WebSocketTaskFailure(URLError(.cannotFindHost)).domain == .url)
        #expect(WebSocketTaskFailure(POSIXError(.ECONNRESET)).domain == .posix)
    }
}
