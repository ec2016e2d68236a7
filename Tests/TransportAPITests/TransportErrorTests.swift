import Testing
import TransportAPI

@Suite("TransportError")
struct TransportErrorTests {
    typealias Code = TransportError.Code
    typealias Fault = TransportError.Fault

    static let table: [(Code, Fault, Bool)] = [
        (.invalidConfiguration, .local, false), (.unsupported, .local, false),
        (.nameNotFound, .network, true), (.resolverFailed, .network, true), (.refused, .peer, true),
        (.unreachable, .network, true), (.networkDown, .network, true), (.addressInUse, .local, false),
        (.permissionDenied, .local, false), (.resourcesExhausted, .local, true), (.timedOut, .network, true),
        (.certificateRejected, .peer, false), (.secureHandshakeFailed, .peer, false),
        (.handshakeFailed, .peer, false), (.authenticationFailed, .local, false), (.forbidden, .local, false),
        (.notFound, .local, false), (.serverUnavailable, .peer, true), (.tooManyRequests, .peer, true),
        (.closedByPeer, .peer, true), (.connectionReset, .network, true), (.connectionLost, .network, true),
        (.keepaliveTimeout, .network, true), (.protocolViolation, .peer, false), (.invalidText, .peer, false),
        (.messageTooLarge, .local, false), (.bufferFull, .local, true), (.acknowledgementTimeout, .peer, true),
        (.wouldBlock, .local, true), (.closedByUser, .local, false), (.cancelled, .local, false),
        (.busy, .local, false), (.storageFailed, .local, true), (.systemError, .local, true),
    ]

    @Test("Each code has its fault and says whether a retry can help", arguments: table)
    func row(code: Code, fault: Fault, retryable: Bool) {
        let error = TransportError(code, .open, "")
        #expect(error.fault == fault)
        #expect(error.isRetryable == retryable)
    }

    @Test("The table of this test has all codes, each once")
    func tableIsComplete() {
        #expect(Set(Self.table.map(\.0)) == Set(Code.allCases))
        #expect(Self.table.count == Code.allCases.count)
    }

    @Test(
        "Each HTTP status of a refused handshake becomes one code",
        arguments: [
            (401, .authenticationFailed), (407, .authenticationFailed), (403, .forbidden), (404, .notFound),
            (410, .notFound), (408, .timedOut), (504, .timedOut), (426, .handshakeFailed), (429, .tooManyRequests),
            (500, .serverUnavailable), (502, .serverUnavailable), (503, .serverUnavailable), (599, .serverUnavailable),
            (200, .handshakeFailed), (301, .handshakeFailed), (400, .handshakeFailed), (600, .handshakeFailed),
        ] as [(Int, Code)]
    )
    func httpStatus(status: Int, code: Code) {
        let error = TransportError.httpStatus(status, retryAfter: .seconds(3))
        #expect(error.code == code)
        #expect(error.phase == .handshake)
        #expect(error.detail == status)
        #expect(error.retryAfter == .seconds(3))
    }

    @Test(
        "Each WebSocket close code becomes one code",
        arguments: [
            (1000, .closedByPeer), (1001, .closedByPeer), (1002, .protocolViolation), (1003, .unsupported),
            (1005, .closedByPeer), (1006, .connectionLost), (1007, .invalidText), (1008, .forbidden),
            (1009, .messageTooLarge), (1010, .handshakeFailed), (1011, .serverUnavailable), (1012, .serverUnavailable),
            (1013, .serverUnavailable), (1014, .serverUnavailable), (1015, .secureHandshakeFailed),
            (3000, .authenticationFailed), (3003, .forbidden), (3008, .timedOut), (4999, .closedByPeer),
            (0, .closedByPeer), (.max, .closedByPeer),
        ] as [(UInt16, Code)]
    )
    func webSocketClose(closeCode: UInt16, code: Code) {
        let error = TransportError.webSocketClose(closeCode, reason: "said so")
        #expect(error.code == code)
        #expect(error.phase == .open)
        #expect(error.detail == Int(closeCode))
        #expect(error.reason.hasSuffix(": said so"))
        #expect(!TransportError.webSocketClose(closeCode).reason.contains(":"))
    }

    @Test(
        "Each MQTT return code becomes one code",
        arguments: [
            (1, .handshakeFailed), (2, .handshakeFailed), (3, .serverUnavailable), (4, .authenticationFailed),
            (5, .forbidden), (6, .protocolViolation), (255, .protocolViolation),
        ] as [(UInt8, Code)]
    )
    func connack(returnCode: UInt8, code: Code) {
        let error = TransportError.connack(returnCode)
        #expect(error.code == code)
        #expect(error.phase == .handshake)
        #expect(error.detail == Int(returnCode))
        // mosquitto answers a wrong password as it answers a client without rights.
        #expect(error.reason.contains("password") == [4, 5].contains(returnCode))
    }

    @Test("The description is one line of phase, sentence, code and number")
    func description() {
        #expect(
            "\(TransportError(.refused, .connect, "no listener", detail: 111))"
                == "connect: no listener (refused 111)"
        )
        let wrong = TransportError.configuration("port", "is bad")
        #expect("\(wrong)" == "configure: port is bad (invalidConfiguration)")
        #expect("\(CloseReason(wrong))" == "\(wrong)", "a close reason shows the error alone")
    }

    @Test(
        "A close reason that is made from an error names the side that ended the connection",
        arguments: [
            (.authenticationFailed, .authentication), (.forbidden, .authentication), (.keepaliveTimeout, .keepalive),
            (.protocolViolation, .protocolError), (.messageTooLarge, .protocolError), (.invalidText, .protocolError),
            (.handshakeFailed, .protocolError), (.closedByUser, .user), (.cancelled, .user), (.closedByPeer, .peer),
            (.connectionLost, .network), (.connectionReset, .network), (.refused, .network),
        ] as [(Code, CloseReason.Initiator)]
    )
    func closeReason(code: Code, initiator: CloseReason.Initiator) {
        let error = TransportError(code, .open, "why", detail: 7)
        #expect(CloseReason(error) == CloseReason(initiator, code: 7, text: "why", error: error))
        #expect(CloseReason(TransportError(code, .open, "", detail: -1)).code == nil)
        #expect(CloseReason(TransportError(code, .open, "", detail: 65_536)).code == nil)
    }

    @Test("Only the outcomes acknowledged and written are successes")
    func outcomes() {
        let error = TransportError(.connectionLost, .open, "")
        #expect(SendOutcome.acknowledged.isSuccess && SendOutcome.written.isSuccess)
        for outcome in [SendOutcome.expired, .rejected(error), .unknown(error)] { #expect(!outcome.isSuccess) }
    }
}
