@testable import Primitives
@testable import SocketIO

/// A byte stream whose other end is a test. It reports readiness on its edges, as a socket does: a side that got
/// `.wouldBlock` continues only after the next edge.
final class LinkedStream: ByteChannel {
    /// The bytes that have arrived and were not read.
    private(set) var arrived: ArraySlice<UInt8> = []
    /// Whether the end follows these bytes.
    private(set) var hasEnd = false
    /// The bytes that were written and that the test has not taken.
    private(set) var written: ArraySlice<UInt8> = []
    /// The number of bytes that the stream still takes.
    private(set) var room: Int
    private(set) var isFull = false
    /// The number of bytes that were written before ``shutdownWriting()``; `nil` before it.
    private(set) var countAtShutdown: Int?
    private(set) var isClosed = false
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    /// The error of all reads after the bytes that have arrived.
    var readFailure: SystemError?
    /// The error of all further writes.
    var writeFailure: SystemError?
    /// Whether all further writes return the end, as over TLS that has failed.
    var endsWrites = false
    /// The failure of TLS that all further writes return.
    var tlsFailure: TLSFailure?

    init(room: Int = .max) {
        self.room = room
    }

    func attach(_: any PollHandler) {}

    func note(_ readiness: Readiness) {
        if readiness.contains(.write) { isFull = false }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !arrived.isEmpty else { return readFailure.map { .failed($0) } ?? (hasEnd ? .end : .wouldBlock) }
        let count = min(arrived.count, buffer.count)
        buffer.copyBytes(from: arrived.prefix(count))
        arrived = arrived.dropFirst(count)
        bytesReceived += UInt64(count)
        return .bytes(count)
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        // An end that has come with the bytes is reported by the hang-up.
        count < capacity && !hasEnd && readFailure == nil
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let writeFailure { return .failed(writeFailure) }
        if endsWrites { return .end }
        if let tlsFailure { return .insecure(tlsFailure) }
        guard !isFull else { return .wouldBlock }
        guard room > 0 else {
            isFull = true
            return .wouldBlock
        }
        let count = min(room, bytes.count)
        written += UnsafeRawBufferPointer(rebasing: bytes[..<count])
        room -= count
        bytesSent += UInt64(count)
        return .bytes(count)
    }

    func shutdownWriting() -> Bool {
        if countAtShutdown == nil { countAtShutdown = Int(bytesSent) }
        return true
    }

    func close(abort _: Bool) { isClosed = true }

    // MARK: The other end

    func arrive(_ bytes: some Sequence<UInt8>) { arrived += bytes }

    func end() { hasEnd = true }

    /// Takes up to `count` written bytes.
    func take(_ count: Int = .max) -> [UInt8] {
        let taken = Array(written.prefix(count))
        written = written.dropFirst(taken.count)
        return taken
    }

    /// Makes room for `count` bytes. Returns whether the writer gets an edge.
    func makeRoom(_ count: Int) -> Bool {
        room = room > .max - count ? .max : room + count
        return isFull
    }
}

/// The user of one TLS stream. It does what the driver of a connection does: it reads after each edge until the stream is
/// empty, and writes until the stream would block.
final class TLSUser: PollHandler {
    let below: LinkedStream
    let stream: TLSStream
    /// The bytes that were not written yet.
    private(set) var toSend: ArraySlice<UInt8> = []
    private(set) var received: [UInt8] = []
    private(set) var isOpen = false
    private(set) var failure: TLSFailure?
    private(set) var systemError: SystemError?
    /// Whether the peer's close_notify was read.
    private(set) var hasEnded = false
    private var isBlocked = false
    private var ends = false
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    /// The number of bytes in one read.
    var readSize: Int {
        get { buffer.count }
        set { buffer = [UInt8](repeating: 0, count: newValue) }
    }
    /// The number of bytes in one write.
    var writeSize = Int.max

    init(_ below: LinkedStream, _ engine: any TLSEngine, _ side: TLSSettings.Side, on loop: EventLoop) {
        self.below = below
        stream = TLSStream(over: below, engine, side, on: loop)
        try? stream.attach(self)
        advance()
    }

    /// Whether nothing more will come.
    var isOver: Bool { failure != nil || systemError != nil || hasEnded }

    func ready(_ readiness: Readiness) {
        stream.note(readiness)
        guard isOpen else { return advance() }
        if readiness.contains(.write) { isBlocked = false }
        if readiness.contains(.read) { readAll() }
        writeAll()
    }

    private func advance() {
        guard !isOver else { return }
        while true {
            switch stream.advance() {
            case .again: continue
            case .waiting: return
            case .ready: isOpen = true
            case .failed(let result): take(result)
            }
            break
        }
        guard isOpen else { return }
        // The edge of bytes behind the handshake can have been reported already.
        readAll()
        writeAll()
    }

    private func readAll() {
        while !isOver {
            let result = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
            guard case .bytes(let count) = result else { return take(result) }
            received += buffer[..<count]
            if stream.isDrained(afterReading: count, of: readSize) { return }
        }
    }

    private func take(_ result: IOResult) {
        switch result {
        case .bytes, .wouldBlock: break
        case .end: hasEnded = true
        case .failed(let error): systemError = error
        case .insecure(let reason): failure = reason
        }
    }

    /// Forgets what was received.
    func reset() { received = [] }

    /// Writes bytes, now or as soon as that is possible.
    func send(_ bytes: [UInt8]) {
        toSend += bytes
        if isOpen { writeAll() }
    }

    /// Ends the stream after all bytes.
    func end() {
        ends = true
        if isOpen { writeAll() }
    }

    private func writeAll() {
        while !toSend.isEmpty, !isBlocked {
            let result = toSend.prefix(writeSize).withUnsafeBytes { stream.write($0) }
            switch result {
            case .bytes(let count): toSend = toSend.dropFirst(count)
            case .wouldBlock: isBlocked = true
            case .end: return
            case .failed, .insecure:
                take(result)
                return
            }
        }
        if toSend.isEmpty, ends {
            ends = false
            _ = stream.shutdownWriting()
        }
    }
}

/// Two TLS streams whose bytes a test moves.
struct TLSLink {
    let client: TLSUser
    let server: TLSUser
    let loop: EventLoop

    init(
        _ client: any TLSEngine,
        _ server: any TLSEngine,
        on loop: EventLoop,
        room: Int = .max
    ) {
        self.loop = loop
        self.client = TLSUser(LinkedStream(room: room), client, .client, on: loop)
        self.server = TLSUser(LinkedStream(room: room), server, .server, on: loop)
    }

    /// Moves bytes of one side to the other, and makes room for more. Returns whether there was anything to move.
    ///
    /// - Parameters:
    ///   - side: the side that has written the bytes.
    ///   - count: how many bytes are moved at most.
    ///   - granted: how much room for output is made, if the stream has limited room.
    ///   - change: may change the bytes.
    @discardableResult
    func move(
        from side: TLSSettings.Side,
        _ count: Int,
        granting granted: Int,
        _ change: (inout [UInt8]) -> Void = { _ in }
    ) -> Bool {
        let (sender, receiver) = side == .client ? (client, server) : (server, client)
        var bytes = sender.below.take(count)
        let hasMoved = !bytes.isEmpty
        if hasMoved {
            change(&bytes)
            receiver.below.arrive(bytes)
        }
        let isLast = sender.below.countAtShutdown != nil && sender.below.written.isEmpty && !receiver.below.hasEnd
        if isLast { receiver.below.end() }
        if hasMoved || isLast { receiver.ready(isLast ? [.read, .hangUp] : .read) }
        let wasFull = granted > 0 && sender.below.room == 0 && sender.below.isFull
        if granted > 0, sender.below.room < .max, sender.below.makeRoom(granted) { sender.ready(.write) }
        return hasMoved || isLast || wasFull
    }

    /// Moves bytes until none is left. Returns `false` if that takes more than `limit` moves.
    ///
    /// - Parameters:
    ///   - size: returns how many bytes the next move takes, at least one.
    ///   - room: how much room for output each move makes, if the streams have limited room.
    ///   - change: may change the moved bytes of a side.
    func run(
        limit: Int = 1_000_000,
        room: Int = 0,
        size: () -> Int = { .max },
        change: (TLSSettings.Side, inout [UInt8]) -> Void = { _, _ in }
    ) -> Bool {
        for _ in 0..<limit {
            let toServer = move(from: .client, size(), granting: room) { change(.client, &$0) }
            let toClient = move(from: .server, size(), granting: room) { change(.server, &$0) }
            loop.step()
            // A timer that is not due yet does not count: an idle engine frees its buffers.
            if !toServer, !toClient, loop.nextStep != .min { return true }
        }
        return false
    }

    func close() {
        client.stream.close(abort: false)
        server.stream.close(abort: false)
    }

    /// Ends both streams, as the time limits of their connections do.
    func cut() {
        for side in [client, server] where !side.isOver {
            side.below.end()
            side.ready([.read, .hangUp])
        }
    }
}

/// A loop without a thread, on which a test runs its streams itself.
final class SteppedPoller: Poller, NameService {
    static func loop() -> EventLoop {
        let poller = SteppedPoller()
        return EventLoop(stepping: poller, names: poller)
    }

    func add(_: Int32, token _: UInt64, interest _: Readiness) {}
    func remove(_: Int32, token _: UInt64) {}
    func rearm(_: Int32, token _: UInt64, _: Readiness) {}
    func prepare(until _: Int64?) {}
    func block() {}
    func collect(into _: inout Deque<PollEvent>) -> Bool { true }
    func lowerDeadline(to _: Int64) {}
    func wake() {}
    func lookUp(_: String, port _: UInt16, _: @escaping @Sendable (Result<[SocketAddress], ConnectError>) -> Void) {}
}
