import SocketIO

/// An IPv4 address with its port.
package struct SimulatedAddress: Hashable, CustomStringConvertible {
    package var host: UInt32
    package var port: UInt16

    package var description: String {
        "\(host >> 24).\(host >> 16 & 255).\(host >> 8 & 255).\(host & 255):\(port)"
    }
}

/// One program on a host of its own: its event loops, its descriptors, and whether it lives.
package final class SimulatedProcess: @unchecked Sendable {
    // Unchecked, because all of it is of the one thread that simulates.

    package let name: String
    package let host: UInt32
    /// The host, as URLs write it.
    package var hostName: String { "\(host >> 24).\(host >> 16 & 255).\(host >> 8 & 255).\(host & 255)" }
    /// The most descriptors that it may have open.
    package var descriptorLimit = Int.max
    /// How many it has.
    package internal(set) var openDescriptors = 0
    /// How many bytes its stream sockets have received and sent.
    package internal(set) var bytesReceived = 0
    package internal(set) var bytesSent = 0
    /// How many of the bytes that it has sent the programs at the other ends have received.
    package internal(set) var bytesTaken = 0
    /// It does not run before this time, as if it had been stopped, or had no core.
    package var pausedUntil: Int64 = 0
    /// It was killed. What is left of it runs on without a network, so that its tasks end; nothing of that counts.
    package internal(set) var isDead = false
    package internal(set) var loops: [SimulatedLoop] = []
    var nextPort: UInt16

    init(name: String, host: UInt32, nextPort: UInt16) {
        self.name = name
        self.host = host
        self.nextPort = nextPort
    }
}

/// An event loop that the simulation steps, with its poller.
package final class SimulatedLoop {
    package let loop: EventLoop
    let poller: SimulatedPoller
    /// How many iterations it has run.
    package internal(set) var iterations = 0

    init(_ loop: EventLoop, _ poller: SimulatedPoller) {
        self.loop = loop
        self.poller = poller
    }
}

/// What two hosts have between them.
package struct SimulatedPath {
    /// How long bytes are on their way, in nanoseconds.
    package var latency: ClosedRange<Int> = 20_000...200_000
    /// The most bytes of a stream that arrive together.
    package var segment = 16_384
    /// How many datagrams of a hundred are lost, arrive twice, or are overtaken.
    package var loss = 0
    package var duplication = 0
    package var reordering = 0
    /// Nothing gets through before this time; `.max` means not before it is healed.
    package var cutUntil: Int64 = 0

    package init() {}
}
