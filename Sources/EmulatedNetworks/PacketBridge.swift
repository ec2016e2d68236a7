import CNetwork
import CSocketIO
import CommandSupport
import Foundation
import Measuring
import Primitives
import Protocols
import SocketIO

#if os(Linux)
import CNetwork
import CSocketIO
import Foundation
import Primitives
import Protocols
import SocketIO

/// Carries packets between the two interfaces of a network, with its delay, losses and limits. It has a thread of its own.
package final class PacketBridge: Sendable {
    /// The longest frame. The interfaces have an MTU of 1500 bytes.
    private static let longestFrame = 1536

    private struct Shared {
        /// The network from now on, with the seed of its losses.
        var change: (network: Network, seed: UInt64)?
        var counts = LinkCounts()
        /// The packets that the kernel dropped before the bridge had received them.
        var missed = 0
        var isStopped = false
        /// The recorded packets, while packets are recorded.
        var records: [LinkRecord]?
    }

    /// How many packets are recorded at most.
    private static let mostRecords = 64

    private let shared = Locked(Shared())
    private let client: Int32
    private let server: Int32
    /// Wakes the thread.
    private let wake: Int32
    private let thread: Locked<WorkerThread?>

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - client: the socket of all packets at the client's interface. The bridge closes it.
    ///   - server: the same of the server.
    init(client: Int32, server: Int32) throws(SystemFailure) {
        (self.client, self.server) = (client, server)
        wake = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
        guard wake >= 0 else { throw SystemFailure("eventfd", errno: errno) }
        thread = Locked(nil)
        let started = try WorkerThread { [self] in run() }
        thread.withLock { $0 = started }
    }

    /// Applies another network to the packets from now on, and begins new counts.
    func use(_ network: Network, seed: UInt64) {
        shared.withLock {
            $0.change = (network, seed)
            $0.counts = LinkCounts()
            $0.missed = 0
        }
        _ = (cnetwork_missed_packets(client), cnetwork_missed_packets(server))
        signal()
        // The caller may send packets as soon as this returns.
        while shared.withLock({ $0.change != nil && !$0.isStopped }) { usleep(200) }
    }

    /// The counts since the last change of the network.
    var counts: LinkCounts {
        shared.withLock { shared in
            shared.missed += Int(cnetwork_missed_packets(client)) + Int(cnetwork_missed_packets(server))
            var counts = shared.counts
            counts.missed = shared.missed
            return counts
        }
    }

    /// Records the packets from now on, without the TCP segments that only acknowledge.
    func startRecording() { shared.withLock { $0.records = [] } }

    /// Returns the recorded packets.
    func stopRecording() -> [LinkRecord] {
        shared.withLock { shared in
            defer { shared.records = nil }
            return shared.records ?? []
        }
    }

    private func record(
        _ frame: UnsafeMutableRawBufferPointer,
        isFromClient: Bool,
        sent: Int64,
        arrival: Int64?
    ) {
        guard let packet = TransportPacket(frame), let summary = packet.summary else { return }
        let record = LinkRecord(
            isFromClient: isFromClient,
            clientPort: isFromClient ? packet.sourcePort : packet.destinationPort,
            summary: summary,
            bytes: frame.count - 14,
            sent: sent,
            arrival: arrival
        )
        shared.withLock { shared in
            guard let count = shared.records?.count, count < Self.mostRecords else { return }
            shared.records?.append(record)
        }
    }

    /// Ends the thread. Packets in flight are dropped.
    func stop() {
        shared.withLock { $0.isStopped = true }
        signal()
        let running = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        running?.join()
        for descriptor in [client, server, wake] { close(descriptor) }
    }

    private func signal() {
        var one: UInt64 = 1
        _ = write(wake, &one, 8)
    }

    // MARK: The thread

    /// A packet in flight.
    private struct Packet {
        var toServer: Bool
        var slot: Int
        var length: Int
    }

    /// The state of the thread.
    private struct State: ~Copyable {
        var toServer = LinkDirection(.free, rate: nil, seed: 0)
        var toClient = LinkDirection(.free, rate: nil, seed: 0)
        var nat: AddressTranslation?
        var packets = TimerQueue<Packet>()
        var inFlight = (toServer: 0, toClient: 0)
        /// Memory for packets, in slots. It grows with the packets in flight, up to the limit of both directions.
        var memory: [UnsafeMutableRawBufferPointer] = []
        var free: [Int] = []

        deinit {
            for slot in memory { slot.deallocate() }
        }

        mutating func takeSlot() -> Int {
            if let slot = free.popLast() { return slot }
            memory.append(.allocate(byteCount: PacketBridge.longestFrame, alignment: 16))
            return memory.count - 1
        }
    }

    private func run() {
        cnetwork_use_exact_timers()
        var state = State()
        while true {
            let next = state.packets.next.map { max(0, $0 - MonotonicClock.now()) } ?? -1
            if next != 0 { _ = cnetwork_wait(client, server, wake, next) }
            var ended = false
            shared.withLock { shared in
                ended = shared.isStopped
                guard let (network, seed) = shared.change else { return }
                state.toServer = LinkDirection(network, rate: network.rateToServer, seed: seed)
                state.toClient = LinkDirection(network, rate: network.rateToClient, seed: ~seed)
                state.nat = network.nat.map { AddressTranslation(timeout: $0.wholeNanoseconds) }
                shared.change = nil
            }
            guard !ended else { return }
            var count: UInt64 = 0
            _ = read(wake, &count, 8)
            receive(from: client, toServer: true, &state)
            receive(from: server, toServer: false, &state)
            deliver(&state)
            shared.withLock {
                guard $0.change == nil else { return }
                $0.counts = LinkCounts(
                    toServer: state.toServer.counts,
                    toClient: state.toClient.counts,
                    forgottenMappings: state.nat?.forgotten ?? 0,
                    forgottenByServer: state.nat?.forgottenByServer ?? [:]
                )
            }
        }
    }

    /// Receives packets of one side, at most a few hundred at a time, so that the other side has its turn.
    private func receive(from descriptor: Int32, toServer: Bool, _ state: inout State) {
        let isRecording = shared.withLock { $0.records != nil }
        for _ in 0..<256 {
            let slot = state.takeSlot()
            let memory = state.memory[slot]
            let length = recv(descriptor, memory.baseAddress, memory.count, Int32(MSG_TRUNC))
            guard length > 0 else {
                state.free.append(slot)
                return
            }
            let frame = UnsafeMutableRawBufferPointer(rebasing: memory[..<min(length, memory.count)])
            guard length <= memory.count, TransportPacket.isIPv4(.init(frame)) else {
                // Addresses are resolved on the link itself, at no cost. Everything else is noise of the interfaces.
                if length <= memory.count, TransportPacket.isARP(.init(frame)) { forward(frame, toServer: toServer) }
                state.free.append(slot)
                continue
            }
            let now = MonotonicClock.now()
            if toServer, state.nat?.toServer(frame, at: now) == false {
                state.toServer.countUntranslated()
                state.free.append(slot)
                continue
            }
            let arrival =
                toServer
                ? state.toServer.admit(length - 14, at: now, inFlight: state.inFlight.toServer)
                : state.toClient.admit(length - 14, at: now, inFlight: state.inFlight.toClient)
            if isRecording { record(frame, isFromClient: toServer, sent: now, arrival: arrival) }
            guard let arrival else {
                state.free.append(slot)
                continue
            }
            if toServer { state.inFlight.toServer += 1 } else { state.inFlight.toClient += 1 }
            state.packets.add(Packet(toServer: toServer, slot: slot, length: length), at: arrival)
        }
    }

    /// Delivers the packets that are due.
    private func deliver(_ state: inout State) {
        while let packet = state.packets.popDue(MonotonicClock.now()) {
            if packet.toServer { state.inFlight.toServer -= 1 } else { state.inFlight.toClient -= 1 }
            let frame = UnsafeMutableRawBufferPointer(rebasing: state.memory[packet.slot][..<packet.length])
            if packet.toServer || state.nat?.toClient(frame, at: MonotonicClock.now()) ?? true {
                if !forward(frame, toServer: packet.toServer) {
                    if packet.toServer { state.toServer.countUnsent() } else { state.toClient.countUnsent() }
                }
            } else {
                state.toClient.countUntranslated()
            }
            state.free.append(packet.slot)
        }
    }

    /// Sends a frame. Returns `false` if the interface is full.
    @discardableResult
    private func forward(_ frame: UnsafeMutableRawBufferPointer, toServer: Bool) -> Bool {
        send(toServer ? server : client, frame.baseAddress, frame.count, Int32(MSG_DONTWAIT)) >= 0
    }
}
#endif
