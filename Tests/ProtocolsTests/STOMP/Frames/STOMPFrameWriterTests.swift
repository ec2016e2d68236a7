import Testing

@testable import Protocols

@Suite("STOMP frame writer")
struct STOMPFrameWriterTests {
    @Test("A frame is written as the specification shows it")
    func bytes() {
        let frame = STOMPFrame(
            .send,
            [STOMPHeader("destination", "/queue/a"), STOMPHeader("content-length", "99")],
            body: Array("hello".utf8)
        )
        #expect(stompText(encoded(frame)) == "SEND\ndestination:/queue/a\ncontent-length:5\n\nhello^@")
        #expect(
            stompText(encoded(STOMPFrame(.disconnect, [STOMPHeader("receipt", "77")])))
                == "DISCONNECT\nreceipt:77\n\n^@"
        )
        var output = ByteBuffer()
        STOMPFrameWriter.heartBeat(into: &output)
        #expect(output.bytes(at: 0, count: output.count) == [0x0a])
    }

    @Test("Names and values are escaped, except in CONNECT")
    func escaped() {
        let headers = [STOMPHeader("a:b", "\\r\r\n:\\")]
        #expect(stompText(encoded(STOMPFrame(.ack, headers))) == "ACK\na\\cb:\\\\r\\r\\n\\c\\\\\n\n^@")
        let connect = STOMPFrame(.connect, [STOMPHeader("passcode", "a:\\n")])
        #expect(stompText(encoded(connect)) == "CONNECT\npasscode:a:\\n\n\n^@")
        #expect(STOMPFrameWriter.escapedSize("a:b\r\n\\") == 10)
    }

    @Test("What is written is read again, whole and byte by byte", arguments: STOMPCommand.allCases, [Int.max, 1])
    func roundTrip(command: STOMPCommand, slice: Int) {
        let value = command.isEscaped ? " :\r\n\\c\\é " : " :\\é "
        var frame = STOMPFrame(command, [STOMPHeader("a", value), STOMPHeader("a", "")])
        if command.mayHaveBody { frame = STOMPFrame(command, frame.headers, body: [0, 0x0a, 0xff, 0]) }
        let read = readFrames(encoded(frame), slice: slice)
        if command.mayHaveBody { frame.headers.append(STOMPHeader("content-length", "4")) }
        #expect(read.frames == [frame] && read.failure == nil && read.unread == 0)
    }
}
