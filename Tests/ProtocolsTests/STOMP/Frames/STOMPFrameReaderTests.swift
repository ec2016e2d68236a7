import TestSupport
import Testing
import TransportAPI

@testable import Protocols

private let slices = [Int.max, 1, 2, 3, 7]

private let malformed: [(text: String, reason: String)] = [
    ("\r\rMESSAGE", "a frame begins with '??', expected was a command of STOMP 1.2"),
    ("message\n", "a frame begins with 'm', expected was a command of STOMP 1.2"),
    ("MESSAGE \n", "a frame begins with 'MESSAGE ', expected was a command of STOMP 1.2"),
    ("MESSAGE\rX", "a frame begins with 'MESSAGE?X', expected was a command of STOMP 1.2"),
    ("UNSUBSCRIBES", "a frame begins with 'UNSUBSCRIBES', expected was a command of STOMP 1.2"),
    ("HTTP/1.1 400 Bad Request\r\n", "a frame begins with 'HTTP/', expected was a command of STOMP 1.2"),
    ("MESSAGES\n", "'MESSAGES' is not a command of STOMP 1.2"),
    ("^@", "a frame begins with '?', expected was a command of STOMP 1.2"),
    ("MESSAGE\nfoo\n", "MESSAGE has the header line 'foo', expected was name:value"),
    ("MESSAGE\n:bar\n", "MESSAGE has the header line ':bar', expected was name:value"),
    ("MESSAGE\nfoo:a\rb\n", "MESSAGE has a header with a carriage return, which has to be written as \\r"),
    ("MESSAGE\nfoo:bar\r\r\n", "MESSAGE has a header with a carriage return, which has to be written as \\r"),
    ("MESSAGE\nfoo:a\\tb\n", "MESSAGE has the escape '\\t', defined are \\r, \\n, \\c and \\\\"),
    ("MESSAGE\nfo\\o:bar\n", "MESSAGE has the escape '\\o', defined are \\r, \\n, \\c and \\\\"),
    ("MESSAGE\nfoo:bar\\\n", "MESSAGE has the escape '\\', defined are \\r, \\n, \\c and \\\\"),
    ("RECEIPT\nreceipt-id:77\n^@", "RECEIPT ends within its headers, expected was an empty line after them"),
    ("RECEIPT\nreceipt-id:7^@", "RECEIPT ends within its headers, expected was an empty line after them"),
    ("MESSAGE\ncontent-length:-1\n\n", "MESSAGE has content-length '-1', expected was a number of bytes"),
    ("MESSAGE\ncontent-length: 1\n\n", "MESSAGE has content-length ' 1', expected was a number of bytes"),
    ("MESSAGE\ncontent-length:\n\n", "MESSAGE has content-length '', expected was a number of bytes"),
    ("MESSAGE\ncontent-length:1\n\nab", "MESSAGE has more bytes than its content-length 1, expected was a NUL"),
    ("MESSAGE\ncontent-length:0\n\na", "MESSAGE has more bytes than its content-length 0, expected was a NUL"),
    ("RECEIPT\nreceipt-id:7\n\nx", "RECEIPT has a body, which only SEND, MESSAGE and ERROR may have"),
    ("CONNECTED\ncontent-length:1\n\n", "CONNECTED has a body, which only SEND, MESSAGE and ERROR may have"),
]

@Suite("STOMP frame reader")
struct STOMPFrameReaderTests {
    @Test("Frames are read in any slices", arguments: slices)
    func frames(slice: Int) {
        let text = """
            CONNECTED
            version:1.2

            ^@
            MESSAGE
            subscription:0
            message-id:007
            destination:/queue/a

            hello queue a^@MESSAGE
            content-length:3

            a^@b^@

            RECEIPT
            receipt-id:message-12345

            ^@
            """
        let read = readFrames(text, slice: slice)
        #expect(read.failure == nil && read.unread == 0)
        let message = [
            STOMPHeader("subscription", "0"), STOMPHeader("message-id", "007"), STOMPHeader("destination", "/queue/a"),
        ]
        #expect(
            read.frames == [
                STOMPFrame(.connected, [STOMPHeader("version", "1.2")]),
                STOMPFrame(.message, message, body: Array("hello queue a".utf8)),
                STOMPFrame(.message, [STOMPHeader("content-length", "3")], body: [0x61, 0, 0x62]),
                STOMPFrame(.receipt, [STOMPHeader("receipt-id", "message-12345")]),
            ]
        )
    }

    @Test("Lines may end in CRLF, and line ends before and after a frame are skipped", arguments: slices)
    func lineEnds(slice: Int) {
        let text = "\n\r\n\nMESSAGE\r\na:b\r\n\r\nbody\r\n^@\r\n\n\r\n\nERROR\nmessage:no\n\n^@\n\n"
        let read = readFrames(text, slice: slice)
        #expect(read.failure == nil && read.unread == 0)
        #expect(
            read.frames == [
                STOMPFrame(.message, [STOMPHeader("a", "b")], body: Array("body\r\n".utf8)),
                STOMPFrame(.error, [STOMPHeader("message", "no")]),
            ]
        )
    }

    @Test("Escapes are decoded in names and values", arguments: slices)
    func escapes(slice: Int) {
        let read = readFrames("MESSAGE\na\\cb:\\r\\n\\c\\\\n\\\\\n\n^@", slice: slice)
        #expect(read.frames.first?.headers.first?.name == "a:b")
        #expect(read.frames.first?["a:b"] == "\r\n:\\n\\")
    }

    @Test("CONNECTED is not escaped", arguments: slices)
    func connectedIsPlain(slice: Int) {
        let read = readFrames("CONNECTED\nserver:a\\tb\\c:d\n\n^@", slice: slice)
        #expect(read.failure == nil)
        #expect(read.frames.first?["server"] == "a\\tb\\c:d")
    }

    @Test("Spaces and colons belong to the value")
    func notTrimmed() {
        let read = readFrames("MESSAGE\n a : b:c \nempty:\n\n^@")
        #expect(read.frames.first?.headers.first?.name == " a ")
        #expect(read.frames.first?[" a "] == " b:c ")
        #expect(read.frames.first?["empty"] == "")
        #expect(read.frames.first?["A"] == nil)
    }

    @Test("The first of repeated headers counts")
    func repeated() {
        let read = readFrames("MESSAGE\nfoo:World\nfoo:Hello\ncontent-length:1\ncontent-length:9\n\nx^@")
        #expect(read.frames.first?["foo"] == "World")
        #expect(read.frames.first?.headers.count == 4)
        #expect(read.frames.first?.body == [0x78])
    }

    @Test("Names are compared byte by byte")
    func bytewise() {
        // The same letter, composed and decomposed.
        let frame = STOMPFrame(.message, [STOMPHeader("e\u{301}", "1"), STOMPHeader("\u{e9}", "2")])
        #expect(frame["\u{e9}"] == "2" && frame["e\u{301}"] == "1")
    }

    @Test("A malformed frame is a protocol violation that says what was seen", arguments: malformed, slices)
    func refused(frame: (text: String, reason: String), slice: Int) {
        let read = readFrames("\n" + frame.text, slice: slice)
        #expect(read.failure == TransportError(.protocolViolation, .open, frame.reason))
        #expect(read.frames.isEmpty)
    }

    @Test("Headers must be UTF-8", arguments: slices)
    func utf8(slice: Int) {
        let read = readFrames(stomp("MESSAGE\nfoo:") + [0xc3, 0x28] + stomp("\n\n^@"), slice: slice)
        #expect(
            read.failure
                == TransportError(.protocolViolation, .open, "MESSAGE has a header that is not UTF-8: '?('")
        )
        #expect(readFrames("MESSAGE\nfoo:\u{1f600}é\n\n^@", slice: slice).frames.first?["foo"] == "\u{1f600}é")
    }

    @Test("A command that is out of place is refused at the end of its line")
    func outOfPlace() {
        let read = readFrames(stomp("RECEIPT\n"), accepted: STOMPCommands(.connected, .error))
        #expect(read.failure?.reason == "RECEIPT is out of place here")
    }

    @Test("All commands are known", arguments: STOMPCommand.allCases)
    func commands(command: STOMPCommand) {
        let read = readFrames("\(command.name)\n\n^@")
        #expect(read.frames == [STOMPFrame(command)])
        #expect(command.name.utf8.count <= STOMPCommand.longestName)
    }

    @Test("Damaged streams end in frames or in one error, the same in any slices")
    func damaged() {
        let text =
            "CONNECTED\nversion:1.2\n\n^@\nMESSAGE\r\na\\cb:c\\n\n\nbody^@SEND\ncontent-length:3\n\na^@b^@ERROR\n\nx^@"
        var random = RandomSource.seeded(7)
        for _ in 0..<2000 {
            var bytes = stomp(text)
            for _ in 0..<Int.random(in: 1...4, using: &random) { mutate(&bytes, using: &random) }
            let whole = readFrames(bytes)
            let sliced = readFrames(bytes, slice: Int.random(in: 1...9, using: &random))
            #expect(whole.frames == sliced.frames && whole.failure == sliced.failure)
        }
    }

    @Test("What another protocol sends is recognized at its first byte")
    func firstByte() {
        #expect(readFrames([0x15]).failure?.code == .protocolViolation)
        #expect(readFrames([0x20]).failure?.code == .protocolViolation)
    }
}

@Suite("Limits of STOMP frames")
struct STOMPFrameLimitTests {
    private let limits: STOMPFrameReader.Limits = {
        var limits = STOMPFrameReader.Limits()
        (limits.line, limits.headers, limits.head, limits.body) = (20, 3, 60, 10)
        return limits
    }()

    /// The same limit of the body, and those of the head by default.
    private let wide: STOMPFrameReader.Limits = {
        var limits = STOMPFrameReader.Limits()
        limits.body = 10
        return limits
    }()

    @Test("A header line is limited before it is complete", arguments: slices)
    func line(slice: Int) {
        let longest = "a:" + String(repeating: "b", count: 18)
        #expect(readFrames("MESSAGE\n\(longest)\r\n\n^@", slice: slice, limits).frames.count == 1)
        let read = readFrames("MESSAGE\n\(longest)bc", slice: slice, limits)
        #expect(read.failure?.code == .messageTooLarge)
        #expect(read.failure?.reason == "a header of MESSAGE is longer than 20 bytes, which are allowed")
    }

    @Test("The number of headers is limited", arguments: slices)
    func count(slice: Int) {
        #expect(readFrames("MESSAGE\na:\na:\na:\n\n^@", slice: slice, limits).frames.count == 1)
        let read = readFrames("MESSAGE\na:\na:\na:\na:\n", slice: slice, limits)
        #expect(read.failure?.reason == "MESSAGE has more than 3 headers, which are allowed")
        #expect(read.failure?.code == .messageTooLarge)
    }

    @Test("The sum of the headers is limited", arguments: slices)
    func head(slice: Int) {
        let line = "a:" + String(repeating: "b", count: 17) + "\n"
        #expect(readFrames("MESSAGE\n\(line)\(line)\n^@", slice: slice, limits).frames.count == 1)
        let read = readFrames("MESSAGE\n\(line)\(line)\(line)", slice: slice, limits)
        #expect(read.failure?.reason == "the head of MESSAGE is longer than 60 bytes, which are allowed")
        #expect(read.failure?.code == .messageTooLarge)
    }

    @Test("A message that is larger than allowed is passed over", arguments: slices)
    func passedOver(slice: Int) {
        let large = "MESSAGE\ncontent-length:11\n\n0123456789^@^@MESSAGE\n\n0123456789X^@MESSAGE\n\n0123456789^@"
        let read = readFrames(large, slice: slice, limits)
        #expect(read.failure == nil && read.unread == 0)
        #expect(read.frames.map(\.bodySize) == [11, 11, 10])
        #expect(read.frames.map(\.body) == [[], [], Array("0123456789".utf8)])
        #expect(read.frames.map(\.isWhole) == [false, false, true])
    }

    @Test("A message that is passed over still needs its NUL", arguments: slices)
    func passedOverWithoutNUL(slice: Int) {
        let read = readFrames("MESSAGE\ncontent-length:11\n\n0123456789ab", slice: slice, limits)
        #expect(read.failure?.reason == "MESSAGE has more bytes than its content-length 11, expected was a NUL")
    }

    @Test(
        "A body beyond all measure is refused before it arrives",
        arguments: [268_435_457, 9_223_372_036_854_775_807, 9_223_372_036_854_775_808] as [UInt64]
    )
    func announced(size: UInt64) {
        let read = readFrames("MESSAGE\ncontent-length:\(size)\n\n", wide)
        #expect(read.failure?.code == .messageTooLarge)
        #expect(
            read.failure?.reason == "MESSAGE has a body of more than 268435456 bytes, 10 are allowed"
        )
    }

    @Test("The beginning of a long ERROR is enough", arguments: slices)
    func longError(slice: Int) {
        let body = String(repeating: "x", count: STOMPFrameReader.errorBody)
        for length in ["", "content-length:999999999999999999999\n"] {
            let read = readFrames("ERROR\nmessage:no\n\(length)\n\(body)y", slice: slice, wide)
            #expect(read.failure == nil)
            #expect(read.frames.count == 1 && read.frames.first?.body == Array(body.utf8))
            #expect(read.frames.first?.isWhole == false)
        }
    }

    @Test("Nothing is read after ERROR", arguments: slices)
    func afterError(slice: Int) {
        let read = readFrames("ERROR\n\nbye^@MESSAGE\n\nx^@", slice: slice, limits)
        #expect(read.frames.map(\.command) == [.error] && read.unread == 0)
    }

    @Test("A reader takes no memory between two frames")
    func memory() throws {
        var reader = STOMPFrameReader(accepted: .all)
        var input = ByteBuffer()
        input.append(contentsOf: stomp("MESSAGE\na:b\nc:"))
        #expect(try reader.next(&input) == nil)
        #expect(reader.bufferedBytes > 0 && !reader.isBetweenFrames)
        input.append(contentsOf: stomp("d\n\nx^@"))
        #expect(try reader.next(&input) != nil)
        #expect(reader.bufferedBytes == 0 && reader.isBetweenFrames)
    }
}
