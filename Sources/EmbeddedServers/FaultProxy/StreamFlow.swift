import Primitives
import SocketIO
import TransportAPI

/// One direction of a connection. The bytes from its source are written to its sink after the delay of the path. It is
/// used on its loop only.
///
/// While the buffer is full, the source is not read, so its peer must wait.
final class StreamFlow {
    private enum Ending {
        /// FIN, which stays behind the bytes.
        case finish
        /// RST. Bytes that the sink has no room for are lost, as they would be in its kernel.
        case reset
    }

    /// After this many reads, other handlers run.
    private static let rounds = 16

    private unowned let connection: StreamConnection
    private let path: ProxyPath
    private let way: PathWay
    private let source: StreamSocket
    private let sink: StreamSocket
    private var line: DelayLine
    private var random: RandomSource
    private var ending: (how: Ending, entered: Int64)?
    private var wakeUp = WakeUp()
    private var isReadable = true
    private var isWritable = true
    private var isClosed = false
    /// Whether the end was written to the sink.
    private(set) var isOver = false
    /// Whether nothing more will arrive from the source.
    private(set) var sourceEnded = false

    init(_ connection: StreamConnection, _ way: PathWay, from source: StreamSocket, to sink: StreamSocket) {
        self.connection = connection
        self.way = way
        self.source = source
        self.sink = sink
        path = connection.path
        random = path.random(connection: connection.number, way)
        line = DelayLine(path.faults.stream)
    }

    var bufferedBytes: Int { line.byteCount }

    func sourceIsReadable() {
        isReadable = true
        pump()
    }

    func sinkIsWritable() {
        isWritable = true
        pump()
    }

    func faultsChanged() {
        line.change(to: path.faults.stream, at: path.loop.now)
        pump()
    }

    /// Stops reading, and ends after the buffered bytes.
    func finish() {
        if ending == nil { end(.finish) }
        pump()
    }

    /// Handles the loss of the source's connection.
    func sourceBroke() {
        source.close(abort: true)
        sourceEnded = true
        isOver = false
        end(.reset)
        pump()
    }

    /// Handles the loss of the sink. The bytes in flight to it are lost.
    func sinkBroke() {
        line.removeAll()
        isOver = true
    }

    func close() {
        isClosed = true
        line.removeAll()
        wakeUp.cancel(on: path.loop)
    }

    /// Reads and drops bytes that still arrive. Returns whether more may be waiting, which are left to a later call, because
    /// the peer may send as fast as they are read.
    func drain() -> Bool {
        var rounds = Self.rounds
        while !sourceEnded, isReadable {
            guard rounds > 0 else { return true }
            rounds -= 1
            switch read(atMost: ScratchPool.blockSize, { _ in }) {
            case .bytes: break
            case .wouldBlock: isReadable = false
            case .end, .failed, .insecure: sourceEnded = true
            }
        }
        return false
    }

    private func pump() {
        guard !isClosed else { return }
        deliver()
        var rounds = Self.rounds
        while isReadable, !isClosed, !isOver, ending == nil, line.room > 0, rounds > 0 {
            fill()
            deliver()
            rounds -= 1
        }
        guard !isClosed else { return }
        wakeUp.set(rounds == 0 ? path.loop.now : nextWakeUp(), on: path.loop) { [self] in
            wakeUp.rang()
            pump()
        }
    }

    private func nextWakeUp() -> Int64? {
        guard !isOver, !path.faults.isBlackHole(way) else { return nil }
        let reset = ending?.how == .reset ? endingDue : nil
        guard let part = line.nextPart(after: path.loop.now) else { return endingDue }
        guard isWritable else { return reset }
        return min(reset ?? .max, part)
    }

    // MARK: Reading

    private func fill() {
        let now = path.loop.now
        let room = min(line.room, ScratchPool.blockSize)
        let result = read(atMost: room) { bytes in
            // A stream loses nothing, and there is room.
            _ = line.append(Array(bytes), PathModel.Draw(using: &random), at: now)
        }
        switch result {
        case .bytes(let count):
            if source.isDrained(afterReading: count, of: room) { isReadable = false }
        case .wouldBlock:
            isReadable = false
        case .end:
            sourceEnded = true
            end(.finish)
        case .failed, .insecure:
            connection.broke(sourceOf: way)
        }
    }

    private func read(atMost limit: Int, _ body: (UnsafeRawBufferPointer) -> Void) -> IOResult {
        let block = path.loop.takeBlock()
        defer { path.loop.giveBlock(block) }
        let result = source.read(into: UnsafeMutableRawBufferPointer(start: block, count: limit))
        if case .bytes(let count) = result { body(UnsafeRawBufferPointer(start: block, count: count)) }
        return result
    }

    private func end(_ how: Ending) {
        ending = (how, path.loop.now)
    }

    private var endingDue: Int64? { ending.map { $0.entered + path.faults.stream.longestTransit } }

    // MARK: Writing

    private func deliver() {
        let now = path.loop.now
        guard !isClosed, !isOver, !path.faults.isBlackHole(way) else { return }
        while isWritable {
            let arrived = line.arrived(at: now)
            guard arrived > 0, let result = line.withFirst(upTo: arrived, { sink.write($0) }) else { break }
            switch result {
            case .bytes(let count):
                line.consume(count)
                path.statistics.delivered(count, way)
            case .wouldBlock:
                isWritable = false
            case .end, .failed, .insecure:
                return connection.broke(sinkOf: way)
            }
        }
        guard let ending, let due = endingDue, due <= now else { return }
        switch ending.how {
        case .reset:
            connection.close(abort: true)
        case .finish where line.isEmpty:
            sink.shutdownWriting()
            isOver = true
            connection.flowEnded()
        case .finish: break
        }
    }
}
