/// One side of a comparison. It is set up once, measured in repetitions that alternate with those of all others, and
/// closed.
protocol Contender: AnyObject {
    /// Runs one repetition of about `nanoseconds`, after a short warm-up that does not count.
    ///
    /// - Returns: the result, in the unit of its workload.
    /// - Throws: ``WrongResult`` if a message was lost or differs; otherwise the error that stopped it.
    func measure(for nanoseconds: Int64) throws -> Double

    /// Releases everything that would disturb the others.
    func close()
}

extension Contender {
    func close() {}
}

/// The way to make a contender. Each contender is one file that declares its recipe. ``Comparison/all`` lists its
/// comparisons.
struct Recipe: Sendable {
    /// The name, unique within the workload.
    var name: String
    var workload: Workload
    /// Whether both sides run in this process, so that its processor time is theirs.
    var isInProcess = true
    /// Sets the contender up. Throws ``Missing`` if this machine lacks something optional.
    var open: @Sendable (Stage) throws -> any Contender

    var key: String { "\(workload.name): \(name)" }
}

/// The task that all contenders of one kind perform with the same messages.
struct Workload: Sendable, Hashable {
    var name: String
    var unit: Unit
    /// Whether each side always waits for the other. Then the result depends on whether cores sleep meanwhile.
    var isWaiting = false

    enum Unit: String, Sendable {
        /// The median of the round trips.
        case microseconds = "µs"
        case messagesPerSecond = "msg/s"
        case megabytesPerSecond = "MB/s"
        case allocations = "per message"
    }

    /// The size of a message in round trips, in bytes.
    static let roundTripSize = 128
    /// The size of a message in one-way workloads, in bytes.
    static let oneWaySize = 64
    /// The size of a large message, in bytes.
    static let largeSize = 1 << 20

    static let tcpRoundTrip = Workload(name: "TCP round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let udpRoundTrip = Workload(name: "UDP round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let webSocketRoundTrip = Workload(name: "WebSocket round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let tlsRoundTrip = Workload(name: "TLS round trip, 128 B", unit: .microseconds, isWaiting: true)
    static let tcpOneWay = Workload(name: "TCP one way, 64 B", unit: .messagesPerSecond)
    static let webSocketOneWay = Workload(name: "WebSocket one way, 64 B", unit: .messagesPerSecond)
    static let webSocketLarge = Workload(name: "WebSocket one way, 1 MiB", unit: .megabytesPerSecond)
    static let tlsLarge = Workload(name: "TLS one way, 1 MiB", unit: .megabytesPerSecond)
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

/// A message was lost, duplicated, reordered or changed. The contender's times mean nothing.
struct WrongResult: Error, CustomStringConvertible {
    var description: String
}

/// Something optional that this machine lacks.
struct Missing: Error, CustomStringConvertible {
    var description: String
}
