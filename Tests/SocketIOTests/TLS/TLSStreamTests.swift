import Primitives
import Testing

@testable import SocketIO

/// The logic of a TLS stream around its engine, with an engine that does not encrypt.
@Suite("TLS streams")
struct TLSStreamTests {
    private let loop = SteppedPoller.loop()

    private func link(_ shape: FakeEngine.Shape = .init(), room: Int = .max) -> TLSLink {
        TLSLink(FakeEngine(.client, shape), FakeEngine(.server, shape), on: loop, room: room)
    }

    /// A client over a stream of the test. The handshake is complete.
    private func openClient() throws -> (user: TLSUser, engine: FakeEngine) {
        let engine = FakeEngine(.client)
        let user = TLSUser(LinkedStream(), engine, .client, on: loop)
        user.below.arrive(FakeEngine.record(.lastPart))
        user.ready(.read)
        try #require(user.isOpen)
        _ = user.below.take()
        return (user, engine)
    }

    private func bytes(_ count: Int, _ seed: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8 &+ seed) }
    }

    @Test("One read processes a limited number of records, and later reads find the rest")
    func tinyRecords() throws {
        let (user, _) = try openClient()
        let count = 1000
        for number in 0..<count { user.below.arrive(FakeEngine.record(.data, [UInt8(truncatingIfNeeded: number)])) }
        user.stream.note(.read)
        var sizes: [Int] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var received: [UInt8] = []
        while received.count < count {
            guard case .bytes(let size) = buffer.withUnsafeMutableBytes({ user.stream.read(into: $0) }) else { break }
            received += buffer.prefix(size)
            sizes.append(size)
            if received.count < count { #expect(!user.stream.isDrained(afterReading: size, of: buffer.count)) }
        }
        #expect(received == (0..<count).map { UInt8(truncatingIfNeeded: $0) })
        #expect(sizes.max() ?? 0 <= 32)
    }

    // MARK: Slices

    @Test(
        "Data stays whole in all sizes of moves, of reads and of writes",
        arguments: [1, 2, 3, 5, 7, 100, 4096, 16_389, 70_000],
        [1, 13, 4096, 65_536]
    )
    func slices(move: Int, read: Int) throws {
        let link = link()
        let (toServer, toClient) = (bytes(move < 100 ? 20_000 : 200_000, 1), bytes(20_000, 2))
        for user in [link.client, link.server] {
            user.readSize = read
            user.writeSize = move == 3 ? 1000 : .max
        }
        link.client.send(toServer)
        link.server.send(toClient)
        #expect(link.run(size: { move }))
        link.client.end()
        link.server.end()
        #expect(link.run(size: { move }))
        #expect(link.server.received == toServer)
        #expect(link.client.received == toClient)
        #expect(link.client.hasEnded && link.server.hasEnded)
        #expect(link.client.failure == nil && link.server.failure == nil)
    }

    @Test("Data stays whole if the stream below takes few bytes at a time", arguments: [1, 2, 6, 45, 1000, 20_000])
    func smallRoom(room: Int) throws {
        let link = link(.init(filler: 700, parts: 5), room: room)
        let (toServer, toClient) = (bytes(room < 10 ? 5000 : 150_000, 1), bytes(3000, 2))
        link.client.send(toServer)
        link.server.send(toClient)
        link.client.end()
        link.server.end()
        #expect(link.run(room: room))
        #expect(link.server.received == toServer)
        #expect(link.client.received == toClient)
        #expect(link.client.hasEnded && link.server.hasEnded)
        // close_notify is the last record, and the end of the stream follows it.
        #expect(link.client.below.countAtShutdown == Int(link.client.below.bytesSent))
    }

    @Test("A flight that is larger than the memory for output is sent in parts")
    func largeFlight() {
        let link = link(.init(filler: 16_000, parts: 30))
        link.client.send([1, 2, 3])
        #expect(link.run(size: { 9000 }))
        #expect(link.server.received == [1, 2, 3])
        #expect(link.client.isOpen && link.server.isOpen)
    }

    @Test("A stream that would block at each byte of the handshake continues")
    func blockingHandshake() {
        // The total of both directions is less than this.
        for blocked in 0..<400 {
            let link = link(room: blocked)
            link.client.send([9])
            link.server.send([8])
            #expect(link.run())
            for user in [link.client, link.server] where user.below.makeRoom(1 << 20) { user.ready(.write) }
            #expect(link.run())
            #expect(link.server.received == [9] && link.client.received == [8], "\(blocked)")
        }
    }

    // MARK: The end

    @Test("A stream that ends without close_notify is truncated")
    func truncated() throws {
        let (user, _) = try openClient()
        user.below.arrive(FakeEngine.record(.data, [1, 2]))
        user.below.end()
        user.ready([.read, .hangUp])
        #expect(user.received == [1, 2])
        #expect(user.failure?.problem == .truncated)
        #expect(user.failure?.sentence.contains("without close_notify") == true)
    }

    @Test("A stream that is cut at each byte ends in a failure, with the data before it")
    func cutAnywhere() throws {
        let record = FakeEngine.record(.data, [7, 8, 9])
        for count in 0..<(2 * record.count) {
            let (user, _) = try openClient()
            user.below.arrive((record + record).prefix(count))
            user.ready(.read)
            user.below.end()
            user.ready([.read, .hangUp])
            #expect(user.received == (count < record.count ? [] : [7, 8, 9]))
            #expect(user.failure?.problem == .truncated)
        }
    }

    @Test("close_notify ends the input, and what follows it is dropped")
    func closeNotify() throws {
        let (user, _) = try openClient()
        user.below.arrive(FakeEngine.record(.data, [1]) + FakeEngine.closeNotify + FakeEngine.record(.data, [2]))
        user.ready(.read)
        #expect(user.received == [1] && user.hasEnded && user.failure == nil)
        #expect(user.stream.bufferedBytes == 0)
        user.below.end()
        user.ready([.read, .hangUp])
        #expect(user.failure == nil)
    }

    @Test("Bytes can be written after the peer has ended its side")
    func halfClosed() throws {
        let (user, _) = try openClient()
        user.below.arrive(FakeEngine.closeNotify)
        user.ready(.read)
        user.send([5, 6])
        user.end()
        #expect(user.below.take() == FakeEngine.record(.data, [5, 6]) + FakeEngine.closeNotify)
        #expect(user.below.countAtShutdown == Int(user.below.bytesSent))
    }

    @Test("The end of the stream below follows the last byte of close_notify", arguments: 0...20)
    func shutdownAfterOutput(room: Int) {
        let user = TLSUser(LinkedStream(room: 46), FakeEngine(.client), .client, on: loop)
        user.below.arrive(FakeEngine.record(.lastPart))
        user.ready(.read)
        // The second flight has no room yet.
        user.send([1, 2, 3])
        user.end()
        #expect(user.below.countAtShutdown == nil)
        let left = 46 + 8 + FakeEngine.closeNotify.count
        if user.below.makeRoom(left - room) { user.ready(.write) }
        #expect((user.below.countAtShutdown == nil) == (room > 0))
        if user.below.makeRoom(room) { user.ready(.write) }
        #expect(user.below.countAtShutdown == Int(user.below.bytesSent))
        #expect(user.below.take().suffix(FakeEngine.closeNotify.count) == FakeEngine.closeNotify[...])
    }

    @Test("A stream that ends within the handshake has no close_notify")
    func endWithinHandshake() {
        let user = TLSUser(LinkedStream(), FakeEngine(.client), .client, on: loop)
        _ = user.below.take()
        _ = user.stream.shutdownWriting()
        #expect(user.below.take().isEmpty)
        #expect(user.below.countAtShutdown != nil)
    }

    @Test("Nothing can be written after the end of the output")
    func writeAfterEnd() throws {
        let (user, _) = try openClient()
        user.end()
        #expect([1].withUnsafeBytes { user.stream.write($0) } == .end)
    }

    @Test("A write over TLS to a proxy that has failed is an error, and does not wait for room")
    func writeAfterInnerFailure() throws {
        let (user, _) = try openClient()
        user.below.endsWrites = true
        // The first write finds out. Its bytes count as not acknowledged.
        _ = [1].withUnsafeBytes { user.stream.write($0) }
        guard case .failed = [1].withUnsafeBytes({ user.stream.write($0) }) else {
            Issue.record("the write is not refused")
            return
        }
        #expect(user.stream.unacknowledgedBytes > 0)
    }

    // MARK: Memory

    @Test("An idle stream keeps no memory, and a partial record counts")
    func memory() throws {
        let (user, _) = try openClient()
        #expect(user.stream.bufferedBytes == 0 && user.stream.unacknowledgedBytes == 0)
        let record = FakeEngine.record(.data, bytes(5000, 3))
        user.below.arrive(record.prefix(3000))
        user.ready(.read)
        #expect(user.stream.bufferedBytes == 3000)
        user.below.arrive(record.dropFirst(3000))
        user.ready(.read)
        #expect(user.received == bytes(5000, 3))
        #expect(user.stream.bufferedBytes == 0)
    }

    @Test("Output that waits counts as unacknowledged and as buffered until it has left")
    func waitingOutput() throws {
        let engine = FakeEngine(.client)
        let user = TLSUser(LinkedStream(room: 200), engine, .client, on: loop)
        user.below.arrive(FakeEngine.record(.lastPart))
        user.ready(.read)
        try #require(user.isOpen)
        let left = user.below.room
        user.send(bytes(100_000, 4))
        let waiting = user.stream.unacknowledgedBytes
        #expect(waiting > 0 && user.stream.bufferedBytes >= waiting)
        #expect(waiting == 100_000 - user.toSend.count + 5 * ((100_000 - user.toSend.count) / 16384) - left)
        // A peer that reads nothing makes this side keep at most one block.
        #expect(user.stream.bufferedBytes <= ScratchPool.blockSize)
        while !user.toSend.isEmpty || user.stream.unacknowledgedBytes > 0 {
            if user.below.makeRoom(3000) { user.ready(.write) }
        }
        #expect(user.stream.bufferedBytes == 0)
        #expect(!engine.hasOverflowed)
    }

    @Test("A closed stream keeps nothing and releases its user")
    func closed() throws {
        weak var weakUser: TLSUser?
        do {
            let (user, _) = try openClient()
            weakUser = user
            user.below.arrive(FakeEngine.record(.data, [1, 2, 3]).prefix(6))
            user.ready(.read)
            user.stream.close(abort: false)
            #expect(user.below.isClosed)
            #expect(user.stream.bufferedBytes == 0)
        }
        #expect(weakUser == nil)
    }

    // MARK: Failures

    @Test(
        "Bytes that are no TLS are recognized by the first two of them",
        arguments: [
            "HTTP/1.1 400 Bad Request\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\u{5}hello", "\u{20}\u{2}\0\0", "\u{16}x",
        ]
    )
    func plainText(text: String) {
        for side in [TLSSettings.Side.client, .server] {
            let user = TLSUser(LinkedStream(), FakeEngine(side), side, on: loop)
            _ = user.below.take()
            for byte in text.utf8.prefix(2) {
                user.below.arrive([byte])
                user.ready(.read)
            }
            #expect(user.failure?.problem == .plainText)
            // A plain client recognizes the server of TLS by this alert.
            #expect(user.below.take() == (side == .server ? [21, 3, 1, 0, 2, 2, 10] : []))
        }
    }

    @Test("The sentence about plain text quotes its printable beginning")
    func quotedPlainText() {
        let user = TLSUser(LinkedStream(), FakeEngine(.client), .client, on: loop)
        user.below.arrive("HTTP/1.1 400 Bad Request\r\n".utf8)
        user.ready(.read)
        #expect(user.failure?.sentence.contains("plain text (\"HTTP/1.1 400 Bad\") where TLS was expected") == true)
    }

    @Test("A client recognizes the alert of a plain server of this package")
    func plainServer() {
        let user = TLSUser(LinkedStream(), FakeEngine(.client), .client, on: loop)
        for byte in [21, 3, 1, 0, 2, 2, 10] as [UInt8] {
            #expect(user.failure == nil)
            user.below.arrive([byte])
            user.ready(.read)
        }
        #expect(user.failure?.problem == .plainText)
    }

    @Test("Bytes that are no TLS after the first record are a broken record")
    func brokenRecord() throws {
        let (user, _) = try openClient()
        user.below.arrive("HTTP".utf8)
        user.ready(.read)
        #expect(user.failure?.problem == .brokenRecord)
        #expect(user.failure?.sentence.contains("no TLS record") == true)
    }

    @Test("A record that is longer than allowed is refused by its header")
    func longRecord() throws {
        for (length, isAllowed) in [(16_384, true), (18_432, true), (18_433, false), (65_535, false)] {
            let (user, _) = try openClient()
            user.below.arrive([23, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)])
            user.ready(.read)
            #expect((user.failure == nil) == isAllowed)
            guard isAllowed else {
                #expect(user.failure?.problem == .brokenRecord)
                #expect(user.failure?.sentence.contains("\(length) bytes") == true)
                continue
            }
            user.below.arrive(bytes(length, 0))
            user.ready(.read)
            #expect(user.received == bytes(length, 0))
        }
    }

    @Test("Data before a failure is delivered, and then the failure, once")
    func dataBeforeFailure() throws {
        let (user, _) = try openClient()
        user.below.arrive(FakeEngine.record(.data, [1, 2]) + "garbage".utf8)
        user.ready(.read)
        #expect(user.received == [1, 2] && user.failure?.problem == .brokenRecord)
        var buffer = [UInt8](repeating: 0, count: 10)
        #expect(buffer.withUnsafeMutableBytes { user.stream.read(into: $0) } == .wouldBlock)
        user.below.end()
        #expect(buffer.withUnsafeMutableBytes { user.stream.read(into: $0) } == .end)
    }

    @Test("Data before a broken record is delivered, however few bytes each read takes", arguments: [1, 2, 3, 100])
    func dataBeforeBrokenRecord(readSize: Int) throws {
        let (user, _) = try openClient()
        user.readSize = readSize
        user.below.arrive(FakeEngine.record(.data, [1, 2, 3]) + [3])
        user.ready(.read)
        #expect(user.received == [1, 2, 3])
        #expect(user.failure?.problem == .brokenRecord)
    }

    @Test("A write that the engine fails returns the failure")
    func failedWrite() throws {
        let (user, engine) = try openClient()
        engine.breaks = true
        user.send([1])
        #expect(user.failure?.sentence == "the fake breaks")
    }

    @Test("A broken output is returned by each write, and the input is still read")
    func brokenOutput() throws {
        let (user, _) = try openClient()
        user.below.writeFailure = SystemError("send", 32)
        _ = [1].withUnsafeBytes { user.stream.write($0) }
        for _ in 0..<2 { #expect([1].withUnsafeBytes { user.stream.write($0) } == .failed(SystemError("send", 32))) }
        user.below.arrive(
            FakeEngine.record(.request) + FakeEngine.record(.data, [1, 2]) + FakeEngine.record(.alert, [2, 40])
        )
        user.ready(.read)
        #expect(user.received == [1, 2])
        #expect(user.failure?.sentence == "an alert")
        #expect(user.stream.bufferedBytes == 0)
    }

    @Test("A broken output within the handshake is an error, unless the server has sent the reason")
    func brokenOutputWithinHandshake() {
        for hasReason in [false, true] {
            let user = TLSUser(LinkedStream(), FakeEngine(.client), .client, on: loop)
            user.below.writeFailure = SystemError("send", 32)
            // The client answers the last part, which fails.
            user.below.arrive(FakeEngine.record(.part))
            user.below.arrive(hasReason ? FakeEngine.record(.alert, [2, 40]) : FakeEngine.record(.lastPart))
            user.below.end()
            user.ready([.read, .hangUp])
            #expect(
                user.failure?.sentence
                    == (hasReason
                        ? "an alert"
                        : "the stream ended without close_notify: the server has crashed, or bytes are missing")
            )
            #expect(
                [1].withUnsafeBytes { user.stream.write($0) } == (hasReason ? .end : .failed(SystemError("send", 32)))
            )
        }
        let user = TLSUser(LinkedStream(room: 10), FakeEngine(.client), .client, on: loop)
        user.below.writeFailure = SystemError("send", 32)
        if user.below.makeRoom(100) { user.ready(.write) }
        #expect(user.systemError == SystemError("send", 32))
    }

    /// A caller that waits for the end of a failed stream has to see that the end has come already.
    @Test("A stream that breaks within the handshake does not look like one whose peer is silent")
    func brokenStreamWithinHandshake() {
        let user = TLSUser(LinkedStream(), FakeEngine(.client), .client, on: loop)
        user.below.arrive(FakeEngine.record(.part))
        user.below.readFailure = SystemError("recv", 104)
        user.ready([.read, .hangUp])
        #expect(user.systemError == SystemError("recv", 104))
        var buffer = [UInt8](repeating: 0, count: 100)
        #expect(buffer.withUnsafeMutableBytes { user.stream.read(into: $0) } == .failed(SystemError("recv", 104)))
    }

    // MARK: Floods

    @Test("A failure of TLS to a proxy within the handshake is returned once, and then the end of the stream below")
    func innerFailureWithinHandshake() {
        let user = TLSUser(LinkedStream(room: 10), FakeEngine(.client), .client, on: loop)
        user.below.tlsFailure = TLSFailure(.brokenRecord, "the proxy is broken")
        if user.below.makeRoom(100) { user.ready(.write) }
        #expect(user.failure?.sentence == "the proxy is broken")
        // The rest of the hello was not passed on.
        #expect(user.stream.unacknowledgedBytes > 0 && !user.stream.holdsOutput)
        user.below.end()
        var buffer = [UInt8](repeating: 0, count: 100)
        #expect(buffer.withUnsafeMutableBytes { user.stream.read(into: $0) } == .end)
    }

    @Test("More than 32 records without data in a row end the connection", arguments: [1, 10_000])
    func emptyRecords(move: Int) throws {
        for (count, isAllowed) in [(32, true), (33, false)] {
            let (user, _) = try openClient()
            var input: [UInt8] = []
            for _ in 0..<count { input += FakeEngine.record(.data, []) }
            input += FakeEngine.record(.data, [1])
            while !input.isEmpty {
                user.below.arrive(input.prefix(move))
                input.removeFirst(min(move, input.count))
                user.ready(.read)
            }
            #expect(user.failure?.problem == (isAllowed ? nil : .tooManyEmptyRecords))
            #expect(user.received == (isAllowed ? [1] : []))
        }
    }

    @Test("Records without data between data are allowed, few of them in one read")
    func emptyRecordsBetweenData() throws {
        let (user, _) = try openClient()
        var input: [UInt8] = []
        for _ in 0..<50 {
            input += FakeEngine.record(.data, [1])
            for _ in 0..<30 { input += FakeEngine.record(.data, []) }
        }
        user.below.arrive(input)
        user.ready(.read)
        #expect(user.failure == nil && user.received.count == 50)
    }

    @Test("A peer that requests answers and does not read them is refused before they fill the memory")
    func unreadAnswers() throws {
        let engine = FakeEngine(.client, .init(answer: 8000))
        let user = TLSUser(LinkedStream(room: 1000), engine, .client, on: loop)
        user.below.arrive(FakeEngine.record(.lastPart))
        user.ready(.read)
        try #require(user.isOpen)
        for _ in 0..<30 {
            user.below.arrive(FakeEngine.record(.request) + FakeEngine.record(.data, [1]))
            user.ready(.read)
            #expect(user.stream.bufferedBytes <= ScratchPool.blockSize)
        }
        #expect(user.failure?.problem == .tooManyEmptyRecords)
        #expect(user.failure?.sentence.contains("requests answers and does not read them") == true)
    }

    @Test("A peer that requests answers and reads them is served")
    func readAnswers() throws {
        let (user, _) = try openClient()
        for _ in 0..<100 {
            user.below.arrive(FakeEngine.record(.request) + FakeEngine.record(.data, [1]))
            user.ready(.read)
            #expect(user.below.take() == FakeEngine.record(.handshake, [7, 0x20]))
        }
        #expect(user.received.count == 100)
    }

    @Test("A write that has to wait for the rest of a message does not block the loop, and continues after it")
    func writeWithinMessage() throws {
        let (user, _) = try openClient()
        user.below.arrive(FakeEngine.record(.begin))
        user.ready(.read)
        user.send([1, 2, 3])
        #expect(user.below.take().isEmpty)
        #expect(user.stream.unacknowledgedBytes == 0 && user.stream.bufferedBytes == 0)
        user.below.arrive(FakeEngine.record(.rest))
        user.ready(.read)
        while loop.nextStep != nil { loop.step() }
        #expect(user.below.take() == FakeEngine.record(.data, [1, 2, 3]))
    }

    @Test("An engine that keeps buffers frees them once it is idle, and not again before the next use")
    func buffersOfIdleEngine() throws {
        let (user, engine) = try openClient()
        engine.keepsBuffers = true
        for round in 1...2 {
            user.send([1])
            #expect(engine.rests == round - 1)
            while loop.nextStep != nil { loop.step() }
            #expect(engine.rests == round)
        }
    }

    // MARK: Records in memory

    @Test("A buffer keeps its bytes in order while it moves between a block and its own memory")
    func recordBuffer() {
        var buffer = RecordBuffer(on: loop)
        var expected: [UInt8] = []
        for step in 0..<200 {
            buffer.prepare()
            let added = bytes(step * 37 % 900, step)
            buffer.free.copyBytes(from: added)
            buffer.added(added.count)
            expected += added
            let taken = min(expected.count, step * 53 % 1000)
            buffer.consume(taken)
            expected.removeFirst(taken)
            if step % 3 == 0 { buffer.shrink() }
            #expect(Array(buffer.bytes) == expected)
            #expect(buffer.isEmpty == expected.isEmpty)
            #expect(buffer.ownMemory >= expected.count)
        }
        buffer.removeAll()
        #expect(buffer.isEmpty && buffer.ownMemory == 0)
    }
}
