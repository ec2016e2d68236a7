import Primitives
import SocketIO

/// An IPv4 address with its port.
package struct SimulatedAddress: Hashable, CustomStringConvertible {
    package var host: UInt32
    package var port: UInt16

    package var description: String {
        "\(host >> 24).\(host >> 16 & 255).\(host >> 8 & 255).\(host & 255):\(port)"
    }
}

/// One program on its own host, with its event loops and its descriptors.
package final class SimulatedProcess: @unchecked Sendable {
    // Unchecked, because only the simulating thread uses it.

    package let name: String
    package let host: UInt32
    /// The host as it is written in a URL.
    package var hostName: String { "\(host >> 24).\(host >> 16 & 255).\(host >> 8 & 255).\(host & 255)" }
    /// The most descriptors that may be open at the same time.
    package var descriptorLimit = Int.max
    /// The number of open descriptors.
    package internal(set) var openDescriptors = 0
    /// How many bytes its stream sockets have received and sent.
    package internal(set) var bytesReceived = 0
    package internal(set) var bytesSent = 0
    /// How many of the sent bytes the peers' programs have received.
    package internal(set) var bytesTaken = 0
    /// The process does not run before this time, as if it had been stopped.
    package var pausedUntil: Int64 = 0 {
        didSet { for loop in loops { loop.poller.isInterrupted = true } }
    }
    /// Whether the process was killed. Its tasks then continue without a network until they end. Their effects do not
    /// count.
    package internal(set) var isDead = false
    package internal(set) var loops: [SimulatedLoop] = []
    /// The queues of its loops for work that may block.
    var queues: [SimulatedQueue] = []
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
    /// The number of iterations so far.
    package internal(set) var iterations = 0

    init(_ loop: EventLoop, _ poller: SimulatedPoller) {
        self.loop = loop
        self.poller = poller
    }
}

/// The properties of the path between two hosts.
package struct SimulatedPath {
    /// The delay, the losses and the rate. The rate limits each direction of each stream, and each direction of all datagrams
    /// together. Only datagrams are lost, duplicated and late.
    package var parameters = PathModel.Parameters()
    /// The most bytes of a stream that arrive together.
    package var segment = 16_384
    /// The path carries nothing before this time; `.max` means until the path is replaced.
    package var cutUntil: Int64 = 0
    /// Whether one bit of the next bytes of a stream, or of the next datagram, changes.
    package var isDamaging = false

    package init() {
        latency = 20_000...200_000
        parameters.keepsOrder = false
    }

    /// The shortest and the longest time that bytes need, in nanoseconds.
    package var latency: ClosedRange<Int> {
        get { Int(parameters.delay)...Int(parameters.longestTransit) }
        set { (parameters.delay, parameters.jitter) = (Int64(newValue.lowerBound), 0...Int64(newValue.count - 1)) }
    }
}
