import SocketIO
import TransportAPI

/// The datagrams of a client in one direction. It is used on its loop only.
final class DatagramFlow {
    /// How long a reordered datagram waits for the next one, in nanoseconds.
    private static var reorderTime: Int64 { 20_000_000 }

    private unowned let client: DatagramClient
    private let path: ProxyPath
    private let way: PathWay
    private var line = DelayLine(keepsOrder: false)
    private var bucket = TokenBucket()
    private var random: RandomSource
    private var heldBack: (bytes: [UInt8], fate: DatagramFate, until: Int64)?
    private var wakeUp = WakeUp()

    init(_ client: DatagramClient, _ way: PathWay) {
        self.client = client
        self.way = way
        path = client.path
        random = path.random(connection: client.number, way)
        bucket.set(bytesPerSecond: path.faults.bytesPerSecond, now: path.loop.now)
    }

    var bufferedBytes: Int { line.byteCount + (heldBack?.bytes.count ?? 0) }

    /// Adds a datagram at the start of the path.
    func take(_ bytes: [UInt8]) {
        let fate = DatagramFate(path.faults, &random)
        if path.faults.isBlackHole(way) {
            path.statistics.swallowed += 1
        } else if fate.isLost {
            path.statistics.lost += 1
        } else if fate.isReordered, heldBack == nil {
            path.statistics.reordered += 1
            heldBack = (bytes, fate, path.loop.now + Self.reorderTime)
        } else {
            enter(bytes, fate, spread: fate.spread)
            // The reordered datagram gets the timing of the one that overtakes it, so it stays behind that one.
            if let held = heldBack.take() { enter(held.bytes, held.fate, spread: fate.spread) }
        }
        pump()
    }

    func faultsChanged() {
        line.reschedule(path.faults)
        bucket.set(bytesPerSecond: path.faults.bytesPerSecond, now: path.loop.now)
        pump()
    }

    func close() {
        line.removeAll()
        heldBack = nil
        wakeUp.cancel(on: path.loop)
    }

    private func enter(_ bytes: [UInt8], _ fate: DatagramFate, spread: Double) {
        if fate.isDuplicated { path.statistics.duplicated += 1 }
        for _ in 0..<(fate.isDuplicated ? 2 : 1) {
            if line.hasRoom(for: bytes.count) {
                line.append(bytes, now: path.loop.now, spread: spread, path.faults)
            } else {
                path.statistics.overflowed += 1
            }
        }
    }

    private func pump() {
        let now = path.loop.now
        if let held = heldBack, held.until <= now {
            heldBack = nil
            enter(held.bytes, held.fate, spread: held.fate.spread)
        }
        while let due = line.nextDue, due <= now {
            if path.faults.isBlackHole(way) {
                path.statistics.swallowed += 1
            } else {
                guard bucket.allowance(now: now) > 0 else { break }
                bucket.spend(line.firstCount)
                deliver()
            }
            line.consume(line.firstCount)
        }
        var next = heldBack?.until
        if let due = line.nextDue {
            next = min(next ?? .max, max(due, bucket.nextTime(for: line.firstCount, now: now)))
        }
        wakeUp.set(next, on: path.loop) { [self] in
            wakeUp.rang()
            pump()
        }
    }

    private func deliver() {
        let count = line.firstCount
        guard line.withFirst({ client.send($0, way) }) == true else {
            path.statistics.overflowed += 1
            return
        }
        path.statistics.delivered(count, way)
        switch way {
        case .toServer: path.statistics.datagramsToServer += 1
        case .toClient: path.statistics.datagramsToClient += 1
        }
    }
}

/// The faults that one datagram is subject to.
///
/// Each datagram uses the same number of random numbers, whatever the faults are. So with one seed, the fate of the
/// hundredth datagram depends only on the faults at that time.
struct DatagramFate: Hashable {
    let isLost: Bool
    let isDuplicated: Bool
    let isReordered: Bool
    /// Its part of the jitter, from 0 to 1.
    let spread: Double

    init(_ faults: PathFaults, _ random: inout RandomSource) {
        isLost = Double.random(in: 0..<1, using: &random) < faults.loss
        isDuplicated = Double.random(in: 0..<1, using: &random) < faults.duplication
        isReordered = Double.random(in: 0..<1, using: &random) < faults.reordering
        spread = Double.random(in: 0..<1, using: &random)
    }
}
