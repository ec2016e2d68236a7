import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// An open core with our framing or with a plain one.
func openTCP(_ configuration: TCPConfiguration = TCPConfiguration()) throws -> CoreHarness<FramedTCPCore> {
    var harness = CoreHarness(try FramedTCPCore(configuration))
    harness.start()
    harness.drain()
    return harness
}

@Suite("Framed TCP")
struct FramedTCPCoreTests {
    /// The worked example of Docs/reference/wire-formats.md.
    static let example: [UInt8] = [
        0x00, 0x00, 0x00, 0x02, 0x68, 0x69,
        0x80, 0x00, 0x00, 0x09, 0x01, 0, 0, 0, 0, 0, 0, 0, 0x01,
        0x80, 0x00, 0x00, 0x06, 0x03, 0x03, 0xe8, 0x62, 0x79, 0x65,
    ]

    @Test("A connection is open at once, without a byte exchanged")
    func opens() throws {
        let harness = try openTCP()
        #expect(harness.isOpen && harness.events.count == 1)
        #expect(harness.core.deadline == nil)
        #expect(harness.core.capabilities == Capabilities(maximumMessageSize: 16 << 20))
    }

    @Test("A message, a ping and a close frame have exactly the documented bytes")
    func goldenBytes() throws {
        var harness = try openTCP()
        #expect(try harness.send(Payload(text: "hi")) == .written)
        try harness.core.ping(&harness.context)
        harness.core.close(CloseReason(.user, text: "bye"), &harness.context)
        #expect(harness.takeOutput() == Self.example)
        #expect(harness.context.counters.controlFrames == 2)
    }

    @Test("The documented bytes are read whole, byte by byte and in slices", arguments: [.max, 1, 2, 3, 5, 7, 11])
    func reading(slice: Int) throws {
        var harness = try openTCP()
        harness.feed(Self.example, slice: slice)
        #expect(harness.failure == nil)
        #expect(harness.messages == [Payload(Array("hi".utf8))])
        #expect(harness.closeReason == CloseReason(.peer, code: 1000, text: "bye"))
        #expect(
            harness.takeOutput() == [
                0x80, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 1,
                0x80, 0, 0, 3, 3, 0x03, 0xe8,
            ]
        )
    }

    @Test("Messages of any size arrive as they were sent, in any slices, with pings between them")
    func conversation() throws {
        var random = RandomSource.seeded(3)
        for slice in [Int.max, 1, 4096, 16_384, 70_000] {
            var left = try openTCP()
            var right = try openTCP()
            let sizes = slice == 1 ? [0, 1, 300] : [0, 1, 4095, 16_384, 16_385, 200_000, 0, 65_536, 1_000_000]
            let sent = sizes.map { size in
                Payload([UInt8](repeating: UInt8(truncatingIfNeeded: random.next()), count: size))
            }
            for payload in sent {
                #expect(try left.send(payload) == .written)
                try left.core.ping(&left.context)
                exchange(&left, &right, slice: slice)
            }
            #expect(right.messages == sent)
            #expect(left.pongs == sent.indices.map { UInt64($0) + 1 })
            #expect(right.input.count == 0)
        }
    }

    @Test("A message that is still arriving takes no memory ahead of its bytes")
    func noReservationAhead() throws {
        var harness = try openTCP(TCPConfiguration(maximumMessageSize: 0x7fff_ffff))
        harness.feed([0x7f, 0xff, 0xff, 0xff])
        harness.feed([UInt8](repeating: 1, count: 100_000), slice: 10_000)
        #expect(harness.failure == nil && harness.messages.isEmpty)
        #expect(harness.input.count == 0 && harness.core.bufferedBytes <= 400_000)
    }

    @Test("A message beyond the limit is rejected by its length alone, and the peer gets a close frame")
    func tooLarge() throws {
        var harness = try openTCP(TCPConfiguration(maximumMessageSize: 3))
        harness.feed([0, 0, 0, 3, 1, 2, 3])
        #expect(harness.messages.count == 1)
        harness.feed([0, 0, 0, 4])
        #expect(harness.failure?.code == .messageTooLarge)
        #expect(harness.takeOutput().dropFirst(4).prefix(3) == [3, 0x03, 0xf1])
    }

    @Test("A message beyond the limit, or with a topic, is not sent, and the connection stays open")
    func sendRefusals() throws {
        var harness = try openTCP(TCPConfiguration(maximumMessageSize: 3))
        #expect(failsWith(.messageTooLarge) { _ = try harness.send(Payload([1, 2, 3, 4])) })
        #expect(failsWith(.unsupported) { _ = try harness.send(Payload([1], topic: "a")) })
        #expect(harness.takeOutput().isEmpty)
        #expect(try harness.send(Payload([1, 2, 3])) == .written)
    }

    @Test(
        "An invalid control frame ends the connection with close code 1002",
        arguments: [
            [], [0], [4], [1], [1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0],
            [2, 0, 0, 0, 0, 0, 0, 0, 1], [3], [3, 3], [3, 3, 0xe8, 0xff],
            [3, 3, 0xe8] + [UInt8](repeating: 97, count: 121),
            [UInt8](repeating: 1, count: 126),
        ] as [[UInt8]]
    )
    func badControl(body: [UInt8]) throws {
        for slice in [Int.max, 1] {
            var harness = try openTCP()
            harness.feed([0x80, 0, 0, UInt8(body.count)] + body, slice: slice)
            #expect(harness.failure?.code == .protocolViolation)
            #expect(harness.takeOutput().dropFirst(4).prefix(3) == [3, 0x03, 0xea])
        }
    }

    @Test("An overlong control frame is rejected before its body arrives")
    func longControl() throws {
        var harness = try openTCP()
        harness.feed([0xff, 0xff, 0xff, 0xff])
        #expect(harness.failure?.code == .protocolViolation)
    }

    @Test("A pong with a token that no ping had is a protocol violation", arguments: [0, 3] as [UInt8])
    func foreignPong(token: UInt8) throws {
        var harness = try openTCP()
        try harness.core.ping(&harness.context)
        try harness.core.ping(&harness.context)
        harness.feed([0x80, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, token])
        #expect(harness.failure?.code == .protocolViolation)
    }

    @Test("A close frame is answered by a close frame, and messages in flight still arrive")
    func closeHandshake() throws {
        var left = try openTCP()
        var right = try openTCP()
        left.core.close(CloseReason(.user, code: 1001, text: "later"), &left.context)
        #expect(left.core.deadline == Instant.zero.advanced(by: .seconds(5)))
        #expect(left.closeReason == nil)
        #expect(try right.send(Payload([7])) == .written)
        exchange(&left, &right)
        #expect(left.messages == [Payload([7])])
        #expect(left.closeReason == CloseReason(.user, code: 1001, text: "later"))
        #expect(right.closeReason == CloseReason(.peer, code: 1001, text: "later"))
        #expect(left.core.deadline == nil && right.core.deadline == nil)
        #expect(failsWith(.closedByUser) { _ = try left.send(Payload([])) })
        #expect(failsWith(.closedByPeer) { _ = try right.send(Payload([])) })
        #expect(failsWith(.closedByPeer) { try right.core.ping(&right.context) })
    }

    @Test("Two close frames that cross end both sides cleanly")
    func crossingCloseFrames() throws {
        var left = try openTCP()
        var right = try openTCP()
        left.core.close(.user, &left.context)
        right.core.close(.user, &right.context)
        exchange(&left, &right)
        #expect(left.closeReason == .user && right.closeReason == .user)
    }

    @Test("A close frame without an answer times out, and the close reason names the side that closed")
    func closeTimeout() throws {
        var harness = try openTCP(TCPConfiguration(closeTimeout: .seconds(2)))
        harness.core.close(.user, &harness.context)
        harness.advance(by: .milliseconds(1999))
        #expect(harness.closeReason == nil)
        harness.advance(by: .milliseconds(1))
        #expect(harness.closeReason?.initiator == .user)
        #expect(harness.closeReason?.error?.code == .timedOut)
        #expect(harness.closeReason?.error?.phase == .closing)
    }

    @Test("A close frame with the code of an error carries this error")
    func errorCode() throws {
        var harness = try openTCP()
        harness.feed([0x80, 0, 0, 3, 3, 0x03, 0xf4])
        #expect(harness.closeReason == CloseReason(.peer, code: 1012, error: .webSocketClose(1012)))
    }

    @Test("A long text is cut to 120 bytes without breaking a character")
    func longText() throws {
        var left = try openTCP()
        var right = try openTCP()
        left.core.close(CloseReason(.user, text: "a" + String(repeating: "é", count: 100)), &left.context)
        exchange(&left, &right)
        #expect(right.closeReason?.text == "a" + String(repeating: "é", count: 59))
    }

    @Test("The end of the stream is a loss without a close frame, and an end with one")
    func inputEnd() throws {
        var harness = try openTCP()
        harness.endInput()
        #expect(harness.failure?.code == .connectionLost)
        harness = try openTCP()
        harness.feed([0, 0, 0, 9, 1])
        harness.endInput()
        #expect(harness.failure?.code == .connectionLost)
        harness = try openTCP()
        harness.core.close(.user, &harness.context)
        harness.endInput()
        #expect(harness.failure == nil && harness.closeReason == .user)
    }

    @Test("A connection that is not open yet sends nothing, not even when it is closed")
    func notOpenYet() throws {
        var harness = CoreHarness(try FramedTCPCore())
        harness.start()
        #expect(failsWith(.wouldBlock) { _ = try harness.send(Payload([1])) })
        #expect(failsWith(.wouldBlock) { try harness.core.ping(&harness.context) })
        harness.core.close(.user, &harness.context)
        harness.drain()
        #expect(harness.closeReason == .user && harness.takeOutput().isEmpty)
    }

    @Test("Each wrong value of the configuration is rejected by its key")
    func configuration() {
        #expect(refusedKey { try FramedTCPCore(TCPConfiguration(maximumMessageSize: 0)) } == "maximumMessageSize")
        #expect(refusedKey { try FramedTCPCore(TCPConfiguration(maximumMessageSize: 1 << 31)) } == "maximumMessageSize")
        #expect(refusedKey { try FramedTCPCore(TCPConfiguration(closeTimeout: .zero)) } == "closeTimeout")
        #expect(
            refusedKey {
                try FramedTCPCore(TCPConfiguration(framing: .plain(.init(length: .varint, countsItself: true))))
            } == "countsItself"
        )
    }

    @Test("Mutated conversations end in messages or one error, never in a trap")
    func fuzz() throws {
        var random = RandomSource.seeded(11)
        for _ in 0..<3000 {
            var bytes = Self.example + [0, 0, 0, 3, 1, 2, 3] + Self.example
            for _ in 0..<Int.random(in: 1...4, using: &random) { mutate(&bytes, using: &random) }
            var harness = try openTCP(TCPConfiguration(maximumMessageSize: 1000))
            harness.feed(bytes, slice: Int.random(in: 1...40, using: &random))
            if harness.closeReason == nil { harness.endInput() }
            #expect(harness.failure != nil || harness.closeReason != nil)
        }
    }
}
