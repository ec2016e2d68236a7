import TransportAPI

@testable import Protocols

/// Reads frames in any slices, then writes them and reads them again.
func fuzzSTOMPFrames(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    var limits = STOMPFrameReader.Limits()
    if input.flag() { (limits.line, limits.headers, limits.head, limits.body) = (24, 4, 80, 10) }
    let whole = try readFrames(input.rest, .whole, limits)
    let sliced = try readFrames(input.rest, Slicing(max(choice, 1)), limits)
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    // A reader reads nothing after ERROR, and keeps not all of a long body.
    var kept = whole.frames.filter { $0.isWhole && $0.command != .error }
    var output = ByteBuffer()
    for frame in kept { STOMPFrameWriter.write(frame, into: &output) }
    let written = output.bytes(at: 0, count: output.count) ?? []
    // The writer sets the size itself, in a line that may be longer.
    let again = try readFrames(written[...], Slicing(choice), STOMPFrameReader.Limits())
    for index in kept.indices { kept[index].headers.removeAll { $0.name == "content-length" } }
    var frames = again.frames
    for index in frames.indices { frames[index].headers.removeAll { $0.name == "content-length" } }
    try ensure(frames == kept && again.error == nil, "\(kept) are read as \(again)")
}

private struct ReadFrames: Equatable {
    var frames: [STOMPFrame] = []
    var error: TransportError?
}

private func readFrames(
    _ bytes: ArraySlice<UInt8>,
    _ slicing: Slicing,
    _ limits: STOMPFrameReader.Limits
) throws -> ReadFrames {
    var (read, slicing) = (ReadFrames(), slicing)
    var input = ByteBuffer()
    var reader = STOMPFrameReader(limits, accepted: .all)
    let most = max(limits.head + limits.line, limits.body) + 2
    do throws(TransportError) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            while let frame = try reader.next(&input) { read.frames.append(frame) }
            if input.count > max(most, STOMPFrameReader.errorBody + 1) { break }
        }
    } catch {
        read.error = error
    }
    try ensure(input.count <= bytes.count, "bytes were made")
    if read.error == nil {
        let limit = max(most, STOMPFrameReader.errorBody + 1)
        try ensure(input.count <= limit, "\(input.count) bytes are left unread, \(limit) are allowed")
    }
    for frame in read.frames {
        try ensure(frame.headers.count <= limits.headers, "\(frame.headers.count) headers")
        let largest = frame.command == .error ? STOMPFrameReader.errorBody : limits.body
        try ensure(frame.body.count <= largest, "a body of \(frame.body.count) bytes")
    }
    return read
}

/// Runs a client.
func fuzzSTOMPClient(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = STOMPConfiguration(host: "h")
    configuration.ack = input.choice(of: STOMPAckMode.allCases)
    configuration.requestsReceipts = input.flag()
    configuration.subscriptions = input.flag() ? ["a", "b"] : []
    configuration.destination = "out"
    configuration.maximumInFlight = input.choice(of: [64, 1])
    configuration.limits.body = input.choice(of: [1000, 10])
    configuration.limits.headers = 20
    configuration.outgoingHeartBeat = input.choice(of: [nil, .seconds(1)])
    configuration.incomingHeartBeat = input.choice(of: [nil, .seconds(1)])
    let slicing = input.choice()
    let isOpen = input.flag()
    let opening = "CONNECTED\nversion:1.2\nheart-beat:1000,1000\n\n\0"
    let steps = (isOpen ? [.feed(Array(opening.utf8)[...])] : []) + input.steps(topic: "t")
    let limit = configuration.limits.line + configuration.limits.body + STOMPFrameReader.errorBody
    try runSliced({ try STOMPClientCore(configuration) }, steps, slicing, inputLimit: limit) { core in
        // An input has some 4 KiB.
        try ensure(core.bufferedBytes <= 64 << 10, "\(core.bufferedBytes) bytes are buffered")
        try ensure(core.receipts.messages <= configuration.maximumInFlight, "\(core.receipts.messages) in flight")
    }
    var connection = CoreRun(try STOMPClientCore(configuration), inputLimit: limit)
    var cuts = Slicing(slicing)
    for (index, step) in steps.enumerated() {
        try connection.perform(step, &cuts)
        guard !connection.isOver else { break }
        let request = SubscriptionRequest("c", qos: .atLeastOnce, number: SubscriptionRequest.first)
        _ = try? connection.core.subscribe([request], id: UInt64(index), &connection.context)
        if case .ping = step { _ = try? connection.core.unsubscribe(["c"], id: UInt64(index), &connection.context) }
    }
}

/// Runs a server, point to point or for a broker.
func fuzzSTOMPServer(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = STOMPServerConfiguration()
    configuration.routesSignals = input.flag()
    configuration.maximumSubscriptions = 4
    configuration.maximumInFlight = input.choice(of: [100, 1])
    configuration.limits.body = input.choice(of: [1000, 10])
    configuration.limits.headers = 20
    if input.flag() {
        configuration.authentication = { connect, _, _ in
            connect["login"] == "a" ? nil : STOMPRejection(.authenticationFailed, "no")
        }
    }
    let slicing = input.choice()
    let isOpen = input.flag()
    let opening = "CONNECT\naccept-version:1.2\nhost:h\nlogin:a\nheart-beat:1000,1000\n\n\0"
    let steps = (isOpen ? [.feed(Array(opening.utf8)[...])] : []) + input.steps(topic: "t")
    let limit = configuration.limits.line + configuration.limits.body + 2
    try runSliced({ try STOMPServerCore(configuration) }, steps, slicing, inputLimit: limit) { core in
        // An input has some 4 KiB. Each subscription has its id, and point to point its destination.
        try ensure(core.bufferedBytes <= 64 << 10, "\(core.bufferedBytes) bytes are buffered")
    }
}
