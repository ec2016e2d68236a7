import TransportAPI

@testable import Protocols

/// Reads bytes of STOMP that arrive `slice` at a time. Returns the frames, the error that ended them, and how many
/// bytes are left unread.
func readFrames(
    _ bytes: [UInt8],
    slice: Int = .max,
    accepted: STOMPCommands = .all,
    _ limits: STOMPFrameReader.Limits = .init()
) -> (frames: [STOMPFrame], failure: TransportError?, unread: Int) {
    var reader = STOMPFrameReader(limits, accepted: accepted)
    reader.phase = .open
    var input = ByteBuffer()
    var frames: [STOMPFrame] = []
    var rest = bytes[...]
    do throws(TransportError) {
        repeat {
            input.append(contentsOf: Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            while let frame = try reader.next(&input) { frames.append(frame) }
        } while !rest.isEmpty
    } catch {
        return (frames, error, input.count)
    }
    return (frames, nil, input.count)
}

/// Reads a text in which `^@` stands for NUL, as in the specification.
func readFrames(
    _ text: String,
    slice: Int = .max,
    _ limits: STOMPFrameReader.Limits = .init()
) -> (frames: [STOMPFrame], failure: TransportError?, unread: Int) {
    readFrames(stomp(text), slice: slice, limits)
}

/// The bytes of a text in which `^@` stands for NUL.
func stomp(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
        let isNUL = byte == UInt8(ascii: "^") && rest.first == UInt8(ascii: "@")
        if isNUL { rest.removeFirst() }
        bytes.append(isNUL ? 0 : byte)
    }
    return bytes
}

/// The bytes of a frame.
func encoded(_ frame: STOMPFrame) -> [UInt8] {
    var output = ByteBuffer()
    STOMPFrameWriter.write(frame, into: &output)
    return output.bytes(at: 0, count: output.count) ?? []
}

/// The text of written frames, in which `^@` stands for NUL.
func stompText(_ bytes: [UInt8]) -> String {
    String(decoding: bytes.flatMap { $0 == 0 ? Array("^@".utf8) : [$0] }, as: UTF8.self)
}
