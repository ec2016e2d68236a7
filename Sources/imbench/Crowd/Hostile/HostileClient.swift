import SocketIO

/// A hostile client over a stream.
struct HostileClient {
    private let script: HostileScript
    private let number: Int
    private var connection: RawConnection?
    /// When it connects again, or sends its next load.
    private var due: Int64 = 0
    /// What it sends, and how much of it is sent.
    private var bytes: [UInt8] = []
    private var sent = 0
    private var isOpened = false
    /// How many loads it has begun, over all of its connections, and over this one.
    private var (round, turn) = (0, 0)
    /// How often it has connected.
    private var visits = 0
    private var refusals = 0
    private var learned: [UInt8]?

    init(_ script: HostileScript, number: Int) {
        (self.script, self.number) = (script, number)
    }

    /// Connects if it is away, and has been for long enough; whether it did.
    mutating func connectIfDue(_ port: UInt16, _ now: Int64) -> Bool {
        guard connection == nil, due <= now else { return false }
        do throws(SystemFailure) {
            connection = try RawConnection(port: port, reads: script.reads)
        } catch {
            due = now + 50_000_000
            return false
        }
        bytes = script.freshOpening?(number, visits) ?? script.opening
        (sent, isOpened, turn, visits) = (0, false, 0, visits + 1)
        return true
    }

    mutating func hangUp(until time: Int64) {
        connection?.close()
        (connection, bytes, due) = (nil, [], time)
    }

    /// What it waits for.
    func interest(_ now: Int64) -> pollfd {
        var events: Int16 = script.reads ? Int16(POLLIN) : 0
        if !isOpened || sent < bytes.count || hasLoad && due <= now { events |= Int16(POLLOUT) }
        return pollfd(fd: connection?.socket ?? -1, events: events, revents: 0)
    }

    private var hasLoad: Bool { script.freshLoad != nil || script.turnLoad != nil || !(learned ?? script.load).isEmpty }

    /// Sends and reads once; `false` once the server has hung up.
    mutating func work(_ events: Int16, _ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) -> Bool {
        guard let connection else { return true }
        if events & Int16(POLLERR) != 0 { return false }
        if events & Int16(POLLIN | POLLHUP) != 0 {
            let count = connection.read(buffer)
            guard count >= 0 else { return false }
            if let learns = script.learns { learned = learns(Array(buffer[..<count])) ?? learned }
            if count > 0, script.leaves?(visits - 1) == true { return false }
            if script.countsRefusals { refusals += buffer[..<count].count { $0 == 0x80 } }
        }
        guard events & Int16(POLLOUT) != 0 else { return true }
        if isOpened, sent == bytes.count {
            bytes = script.turnLoad?(turn) ?? script.freshLoad?(number, round) ?? learned ?? script.load
            (sent, round, turn) = (0, round + 1, turn + 1)
        }
        let count = bytes.isEmpty ? 0 : connection.send(bytes[sent...])
        guard count >= 0 else { return false }
        sent += count
        guard sent == bytes.count else { return true }
        if isOpened { due = now + script.pace }
        isOpened = true
        return true
    }

    /// How many refusals it has read since the last call.
    mutating func takeRefusals() -> Int {
        defer { refusals = 0 }
        return refusals
    }
}
