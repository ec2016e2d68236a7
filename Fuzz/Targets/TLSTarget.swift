@testable import SocketIO

/// The loop of all runs, because a loop is never freed.
private let loop = SteppedPoller.loop()

/// Runs the logic of TLS streams around an engine without encryption.
func fuzzTLS(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    if input.flag() { try fuzzTLSPeer(&input) } else { try fuzzTLSPair(&input) }
}

/// Feeds the bytes of an untrusted peer to one stream. The data and the end must not depend on how they are cut.
private func fuzzTLSPeer(_ input: inout FuzzInput) throws {
    let side: TLSSettings.Side = input.flag() ? .client : .server
    let opens = input.flag()
    var slicing = Slicing(input.choice())
    let readSize = input.choice(of: [1 << 16, 1, 7, 1000])
    let ends = input.flag()
    let writes = input.flag()

    func run(_ slices: [ArraySlice<UInt8>], readSize: Int) throws -> TLSUser {
        let user = TLSUser(LinkedStream(), FakeEngine(side), side, on: loop)
        user.readSize = readSize
        if opens {
            user.below.arrive(FakeEngine.record(side == .client ? .lastPart : .hello))
            user.ready(.read)
            if side == .server {
                user.below.arrive(FakeEngine.record(.finished))
                user.ready(.read)
            }
            try ensure(user.isOpen, "the handshake is not complete")
        }
        for slice in slices {
            user.below.arrive(slice)
            user.ready(.read)
            if writes { user.send([1, 2, 3]) }
            for _ in 0..<10 where loop.nextStep != nil { loop.step() }
            try ensure(loop.nextStep == nil, "the loop does not come to rest")
            _ = user.below.take()
        }
        if ends {
            user.below.end()
            user.ready([.read, .hangUp])
            try ensure(user.isOver, "the end is not reported")
        }
        if user.isOver { try ensure(user.stream.bufferedBytes == 0, "memory is kept after the end") }
        user.stream.close(abort: false)
        return user
    }
    let whole = try run([input.rest], readSize: 1 << 16)
    let sliced = try run(slicing.slices(of: input.rest), readSize: readSize)
    try ensure(whole.received == sliced.received, "slices change the data")
    // The sentence about plain text quotes what has arrived, so only the problem is compared.
    try ensure(
        whole.failure?.problem == sliced.failure?.problem && whole.hasEnded == sliced.hasEnded,
        "slices change the end"
    )
}

/// Connects two streams, of which each step of the input moves, writes or ends something.
private func fuzzTLSPair(_ input: inout FuzzInput) throws {
    let shape = FakeEngine.Shape(
        filler: input.choice(of: [40, 0, 700, 16_000]),
        parts: input.choice(of: [1, 3, 30]),
        tickets: input.choice(of: [0, 1, 4])
    )
    let room = input.choice(of: [Int.max, 0, 30, 20_000])
    let (clientEngine, serverEngine) = (FakeEngine(.client, shape), FakeEngine(.server, shape))
    let link = TLSLink(clientEngine, serverEngine, on: loop, room: room)
    for user in [link.client, link.server] {
        user.readSize = input.choice(of: [1 << 16, 1, 5, 4096])
        user.writeSize = input.choice(of: [.max, 1, 1000, 16_385])
    }
    var sent: [TLSSettings.Side: [UInt8]] = [.client: [], .server: []]
    var hasEnded: Set<TLSSettings.Side> = []
    // More data than this reaches no more states, and makes a run slow.
    var budget = 200_000
    while budget > 0, let step = input.next() {
        let side: TLSSettings.Side = step & 1 == 0 ? .client : .server
        let user = side == .client ? link.client : link.server
        let size = Int(input.next() ?? 0)
        switch step >> 1 & 3 {
        case 0 where !hasEnded.contains(side):
            let count = step & 8 == 0 ? size : size * 300
            budget -= count
            let data = (0..<count).map { UInt8(truncatingIfNeeded: $0 &+ size) }
            sent[side, default: []] += data
            user.send(data)
        case 1: link.move(from: side, size, granting: 0)
        case 2: link.move(from: side, 0, granting: step & 8 == 0 ? size : size * 300)
        case 3 where step & 8 != 0:
            hasEnded.insert(side)
            user.end()
        default: link.move(from: side, size * 300, granting: size)
        }
    }
    try ensure(link.run(limit: 100_000, room: 50_000), "the streams do not come to rest")
    try ensure(link.client.failure == nil && link.server.failure == nil, "a stream has failed")
    try ensure(link.server.received == sent[.client], "the server has received other bytes")
    try ensure(link.client.received == sent[.server], "the client has received other bytes")
    try ensure(link.server.hasEnded == hasEnded.contains(.client), "the server has not received the end")
    try ensure(link.client.hasEnded == hasEnded.contains(.server), "the client has not received the end")
    try ensure(!clientEngine.hasOverflowed && !serverEngine.hasOverflowed, "an engine had no room for a record")
    for user in [link.client, link.server] {
        try ensure(
            user.stream.bufferedBytes == 0 && user.stream.unacknowledgedBytes == 0,
            "an idle stream keeps memory"
        )
    }
    link.close()
}
