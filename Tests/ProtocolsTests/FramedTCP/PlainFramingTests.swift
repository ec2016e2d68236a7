import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Plain framing over TCP")
struct PlainFramingTests {
    typealias Plain = TCPConfiguration.PlainFraming

    /// Each format with the bytes of the message [7, 8, 9].
    static let formats: [(Plain, [UInt8])] = [
        (Plain(length: .bits16), [0, 3, 7, 8, 9]),
        (Plain(length: .bits16, byteOrder: .littleEndian), [3, 0, 7, 8, 9]),
        (Plain(length: .bits16, countsItself: true), [0, 5, 7, 8, 9]),
        (Plain(), [0, 0, 0, 3, 7, 8, 9]),
        (Plain(byteOrder: .littleEndian), [3, 0, 0, 0, 7, 8, 9]),
        (Plain(countsItself: true), [0, 0, 0, 7, 7, 8, 9]),
        (Plain(byteOrder: .littleEndian, countsItself: true), [7, 0, 0, 0, 7, 8, 9]),
        (Plain(length: .varint), [3, 7, 8, 9]),
    ]

    static func open(_ plain: Plain, limit: Int = 1 << 20) throws -> CoreHarness<FramedTCPCore> {
        try openTCP(TCPConfiguration(framing: .plain(plain), maximumMessageSize: limit))
    }

    @Test("Each kind of length is written as documented, and read whole and byte by byte", arguments: formats)
    func goldenBytes(plain: Plain, bytes: [UInt8]) throws {
        var harness = try Self.open(plain)
        #expect(try harness.send(Payload([7, 8, 9])) == .written)
        #expect(harness.takeOutput() == bytes)
        for slice in [Int.max, 1, 2] {
            var reader = try Self.open(plain)
            reader.feed(bytes + bytes, slice: slice)
            #expect(reader.messages == [Payload([7, 8, 9]), Payload([7, 8, 9])])
            reader.endInput()
            #expect(reader.closeReason == CloseReason(.peer))
        }
    }

    @Test("Messages at each step of the size of a length arrive", arguments: formats.map(\.0))
    func sizes(plain: Plain) throws {
        var left = try Self.open(plain)
        var right = try Self.open(plain)
        let most = left.core.capabilities.maximumMessageSize
        let sizes = [0, 1, 127, 128, 255, 256, 16_383, 16_384, 65_531, 65_533, 65_535, 65_536, 1 << 20].filter {
            $0 <= most
        }
        for size in sizes { _ = try left.send(Payload([UInt8](repeating: 5, count: size))) }
        exchange(&left, &right, slice: 1000)
        #expect(right.messages.map(\.bytes.count) == sizes)
        #expect(failsWith(.messageTooLarge) { _ = try left.send(Payload([UInt8](repeating: 5, count: most + 1))) })
    }

    @Test("A length of 16 bits lowers the limit to its largest value")
    func shortLength() throws {
        #expect(try Self.open(Plain(length: .bits16)).core.capabilities.maximumMessageSize == 65_535)
        #expect(
            try Self.open(Plain(length: .bits16, countsItself: true)).core.capabilities.maximumMessageSize == 65_533
        )
        #expect(try Self.open(Plain(length: .bits16), limit: 9).core.capabilities.maximumMessageSize == 9)
    }

    @Test(
        "A wrong length ends the connection",
        arguments: [
            (Plain(), [0xff, 0xff, 0xff, 0xff], .messageTooLarge), (Plain(), [0, 0x10, 0, 1], .messageTooLarge),
            (Plain(countsItself: true), [0, 0, 0, 3], .protocolViolation),
            (Plain(length: .bits16, countsItself: true), [0, 1], .protocolViolation),
            (Plain(length: .varint), [0xff, 0xff, 0xff, 0xff, 0x0f], .messageTooLarge),
            (Plain(length: .varint), [0xff, 0xff, 0xff, 0xff, 0x1f], .protocolViolation),
            (Plain(length: .varint), [0x80, 0x80, 0x80, 0x80, 0x80], .protocolViolation),
        ] as [(Plain, [UInt8], TransportError.Code)]
    )
    func wrongLengths(plain: Plain, bytes: [UInt8], code: TransportError.Code) throws {
        for slice in [Int.max, 1] {
            var harness = try Self.open(plain)
            harness.feed(bytes, slice: slice)
            #expect(harness.failure?.code == code)
            #expect(harness.takeOutput().isEmpty)
        }
    }

    @Test("A varint may be longer than necessary")
    func overlongVarint() throws {
        var harness = try Self.open(Plain(length: .varint))
        harness.feed([0x81, 0x80, 0x80, 0x80, 0x00, 9])
        #expect(harness.messages == [Payload([9])])
    }

    @Test("A plain connection has no ping, and closing ends it at once without a byte")
    func pingAndClose() throws {
        var harness = try Self.open(Plain())
        #expect(!harness.core.capabilities.hasNativePing)
        #expect(failsWith(.unsupported) { try harness.core.ping(&harness.context) })
        harness.core.close(.user, &harness.context)
        harness.drain()
        #expect(harness.closeReason == .user && harness.takeOutput().isEmpty && harness.core.deadline == nil)
    }

    @Test("The end of the stream within a message, or within a length, is a loss")
    func endWithinMessage() throws {
        var harness = try Self.open(Plain())
        harness.feed([0, 0, 0, 3, 1, 2])
        harness.endInput()
        #expect(harness.failure?.code == .connectionLost)
        harness = try Self.open(Plain())
        harness.feed([0, 0])
        harness.endInput()
        #expect(harness.failure?.code == .connectionLost)
    }

    @Test("Random bytes end in messages or one error, never in a trap", arguments: formats.map(\.0))
    func fuzz(plain: Plain) throws {
        var random = RandomSource.seeded(5)
        for _ in 0..<500 {
            var harness = try Self.open(plain, limit: 100)
            let bytes = (0..<200).map { _ in UInt8(truncatingIfNeeded: random.next() & 0x8f) }
            harness.feed(bytes, slice: Int.random(in: 1...50, using: &random))
            if harness.failure == nil { harness.endInput() }
            #expect(harness.failure != nil || harness.closeReason != nil)
        }
    }
}
