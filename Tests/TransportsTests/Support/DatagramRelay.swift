import Foundation
import SocketIO
import Testing

/// A relay of one client's datagrams to a server on this machine. A test decides about each datagram.
final class DatagramRelay: Sendable {
    enum Side: Sendable { case client, server }

    /// Returns the datagrams that pass in place of one: none, itself, a changed one, or several.
    typealias Rule = @Sendable (_ number: Int, _ sender: Side, _ datagram: [UInt8]) -> [[UInt8]]

    /// The datagrams that have arrived, each with its sender.
    typealias Seen = [(sender: Side, datagram: [UInt8])]

    private struct State: Sendable {
        var client = sockaddr_in()
        var target: UInt16
        var counts: [Side: Int] = [:]
        var rule: Rule
        var seen: Seen = []
        var waiters: [AsyncStream<Void>.Continuation] = []
        var isStopped = false
    }

    private let front: Int32
    private let back: Int32
    private let state: Locked<State>
    let port: UInt16

    /// Starts the relay to a port of this machine.
    init(to target: UInt16?, rule: @escaping Rule = { [$2] }) throws {
        front = try Self.boundSocket()
        back = try Self.boundSocket()
        port = Self.port(of: front)
        state = Locked(State(target: try #require(target), rule: rule))
        Thread { [self] in run() }.start()
    }

    /// The datagrams that have arrived at the relay.
    var seen: Seen { state.withLock { $0.seen } }

    /// Waits until the datagrams that have arrived fulfil a condition, or the task is cancelled.
    func wait(until isReached: (Seen) -> Bool) async {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Void.self)
        state.withLock { $0.waiters.append(continuation) }
        continuation.yield()
        for await _ in arrivals where isReached(seen) { return }
    }

    func set(_ rule: @escaping Rule) { state.withLock { $0.rule = rule } }

    /// Leads further datagrams to another server.
    func redirect(to port: UInt16?) throws {
        let port = try #require(port)
        state.withLock { $0.target = port }
    }

    /// Sends a datagram to one side, as if the other side had sent it.
    func inject(_ datagram: [UInt8], to side: Side) {
        send(datagram, to: side)
    }

    /// Stops the relay. Its thread closes the sockets.
    func stop() {
        state.withLock { $0.isStopped = true }
        // A datagram to itself wakes the thread.
        var address = Self.local(port)
        Self.send([], from: back, to: &address)
    }

    private func run() {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            var polled = [
                pollfd(fd: front, events: Int16(POLLIN), revents: 0),
                pollfd(fd: back, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&polled, 2, -1) > 0 else { continue }
            if state.withLock({ $0.isStopped }) { break }
            for (index, side) in [Side.client, .server].enumerated() where polled[index].revents != 0 {
                var sender = sockaddr_in()
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let count = withUnsafeMutablePointer(to: &sender) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        recvfrom(polled[index].fd, &buffer, buffer.count, Int32(MSG_DONTWAIT), $0, &length)
                    }
                }
                guard count >= 0 else { continue }
                pass(Array(buffer[..<count]), from: side, sender)
            }
        }
        close(front)
        close(back)
    }

    private func pass(_ datagram: [UInt8], from side: Side, _ sender: sockaddr_in) {
        let (rule, number, waiters) = state.withLock { state in
            if side == .client { state.client = sender }
            let number = state.counts[side, default: 0]
            state.counts[side] = number + 1
            state.seen.append((side, datagram))
            return (state.rule, number, state.waiters)
        }
        for waiter in waiters { waiter.yield() }
        for passed in rule(number, side, datagram) { send(passed, to: side == .client ? .server : .client) }
    }

    private func send(_ datagram: [UInt8], to side: Side) {
        var (client, target) = state.withLock { ($0.client, Self.local($0.target)) }
        if side == .client {
            Self.send(datagram, from: front, to: &client)
        } else {
            Self.send(datagram, from: back, to: &target)
        }
    }

    private static func send(_ datagram: [UInt8], from socket: Int32, to address: inout sockaddr_in) {
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(socket, datagram, datagram.count, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private static func local(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        return address
    }

    private static func boundSocket() throws -> Int32 {
        let descriptor = Foundation.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        var address = local(0)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
        return descriptor
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return UInt16(bigEndian: address.sin_port)
    }
}
