/// One side of a comparison: set up once, measured in repetitions between all the others, and taken down.
protocol Contender: AnyObject {
    /// Runs one repetition of about `nanoseconds`, after a short warm-up that does not count.
    ///
    /// - Returns: what it came to, in the unit of its workload.
    /// - Throws: ``WrongResult`` if a message was lost or differs, else why it could not run.
    func measure(for nanoseconds: Int64) throws -> Double

    /// Gives back what would disturb the others.
    func close()
}

extension Contender {
    func close() {}
}

/// How a contender is made. Each is one file that declares its recipe; ``Comparison/all`` says against whom it runs.
struct Recipe: Sendable {
    /// Unique among all, together with the workload.
    var name: String
    var workload: Workload
    /// Whether both sides are in this process, so that its processor time is theirs.
    var isInProcess = true
    /// Sets it up; throws ``Missing`` where this machine lacks something that need not be there.
    var open: @Sendable (Stage) throws -> any Contender

    var key: String { "\(workload.name): \(name)" }
}

/// What all contenders of one kind do, with the same messages.
struct Workload: Sendable, Hashable {
    var name: String
    var unit: Unit
    /// Each side waits for the other all the time, so that the result depends on whether cores sleep meanwhile.
    var isWaiting = false

    enum Unit: String, Sendable {
        /// Of a round trip, the median.
        case microseconds = "µs"
        case messagesPerSecond = "msg/s"
        case megabytesPerSecond = "MB/s"
        case allocations = "per message"
    }

    /// Bytes of a message where round trips are measured.
    static let roundTripSize = 128
    /// Bytes of a message where many are sent one way.
    static let oneWaySize = 64
    /// Bytes of a large message.
    static let largeSize = 1 << 20

    static let tcpRoundTrip = Workload(name: "TCP round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let udpRoundTrip = Workload(name: "UDP round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let webSocketRoundTrip = Workload(name: "WebSocket round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let tcpOneWay = Workload(name: "TCP one way, 64 B", unit: .messagesPerSecond)
    static let webSocketOneWay = Workload(name: "WebSocket one way, 64 B", unit: .messagesPerSecond)
    static let webSocketLarge = Workload(name: "WebSocket one way, 1 MiB", unit: .megabytesPerSecond)
    static let mqttAtMostOnce = Workload(name: "MQTT QoS 0, 64 B", unit: .messagesPerSecond)
    static let mqttAtLeastOnce = Workload(name: "MQTT QoS 1, 64 B", unit: .messagesPerSecond)
    static let mqttFanOut = Workload(name: "MQTT fan-out to 100", unit: .messagesPerSecond)
    static let jsonEncoding = Workload(name: "JSON encoding", unit: .messagesPerSecond)
    static let jsonDecoding = Workload(name: "JSON decoding", unit: .messagesPerSecond)
    static let protobufEncoding = Workload(name: "protobuf encoding", unit: .messagesPerSecond)
    static let protobufDecoding = Workload(name: "protobuf decoding", unit: .messagesPerSecond)
    static let sendAllocations = Workload(name: "allocations of sending", unit: .allocations)
    static let receiveAllocations = Workload(name: "allocations of receiving", unit: .allocations)
}

/// A message was lost, doubled, out of order or changed: the contender's times mean nothing.
struct WrongResult: Error, CustomStringConvertible {
    var description: String
}

/// What this machine lacks, and need not have.
struct Missing: Error, CustomStringConvertible {
    var description: String
}
