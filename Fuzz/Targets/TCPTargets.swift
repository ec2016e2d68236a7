import TransportAPI

@testable import Protocols
@testable import Transports

/// Runs every framing, in any slices, with actions of the user in between.
func fuzzTCP(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let most = input.choice(of: [70_000, 100, 1])
    let framing = input.tcpFraming()
    let configuration = TCPConfiguration(framing: framing, maximumMessageSize: most)
    let slicing = input.choice()
    let steps = input.steps(topic: input.flag() ? "t" : nil)
    try runSliced({ try FramedTCPCore(configuration) }, steps, slicing, inputLimit: 4 + ControlFrame.maximumSize) {
        core in
        let reserved = core.bufferedBytes
        try ensure(reserved <= most + most / 4 + 4096, "\(reserved) bytes are reserved for at most \(most)")
    }
}

extension FuzzInput {
    mutating func tcpFraming() -> TCPConfiguration.Framing {
        typealias Plain = TCPConfiguration.PlainFraming
        return choice(of: [
            .framed, .plain(Plain()), .plain(Plain(length: .varint)), .plain(Plain(length: .bits16)),
            .plain(Plain(length: .bits32, byteOrder: .littleEndian, countsItself: true)),
            .plain(Plain(length: .bits16, byteOrder: .littleEndian, countsItself: true)),
        ])
    }
}
