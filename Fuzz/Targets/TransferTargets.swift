@testable import Transfers
@testable import TransportAPI

/// Reads arbitrary payloads as frames of transfers, and gives the window of transfers arbitrary acknowledgements.
func fuzzTransfers(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let largest = input.choice(of: [0, 4096, 1 << 20])
    var window = TransferWindow(target: .milliseconds(Int(input.choice())), largest: largest)
    var (now, inFlight) = (Instant.zero, 0)
    while let step = input.next() {
        switch step & 7 {
        case 0, 1:
            let payload = Payload(input.record(), kind: step & 8 == 0 ? .binary : .text)
            guard let frame = TransferFrame(payload) else { continue }
            let written = frame.payload
            try ensure(TransferFrame(written) == frame, "\(frame) is read as another one")
            if case .refused = frame { continue }
            try ensure(written.bytes == payload.bytes, "\(frame) is written as \(written.bytes)")
        case 2:
            let before = window.size
            window.reconnected()
            try ensure(window.size <= max(before, 4096), "\(window.size) bytes of a new connection")
        case 3:
            let count = min(inFlight, Int(input.choice()) << 8)
            window.forget(count)
            inFlight -= count
        case 4, 5:
            let count = window.chunkSize
            guard window.hasRoom(for: count) else { continue }
            window.sent(count)
            inFlight += count
        default:
            let count = min(inFlight, Int(input.choice()) << 6)
            let time = Duration.milliseconds(Int(input.choice()) << Int(step >> 4))
            now = now.advanced(by: .milliseconds(Int(input.choice())))
            window.acknowledged(count, after: time, at: now)
            inFlight -= count
        }
        try ensure(window.inFlight == inFlight, "\(window.inFlight) bytes are in flight instead of \(inFlight)")
        try ensure(2048...max(largest, 4096) ~= window.size, "the window has \(window.size) bytes")
        try ensure(1024...32 << 10 ~= window.chunkSize, "a chunk has \(window.chunkSize) bytes")
        try ensure(inFlight > 0 || window.hasRoom(for: 1 << 20), "nothing may be sent")
    }
}
