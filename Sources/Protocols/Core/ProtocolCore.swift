import TransportAPI

/// A protocol as a value that does no I/O: bytes in, bytes out, events out, next deadline out.
///
/// The ``CoreContext`` provides the time and random numbers. One driver runs any core over a byte stream or over
/// datagrams.
///
/// # Calls
///
/// A driver makes these calls. The requirements are in four groups.
///
/// - *Facts*, which stay the same: ``capabilities``, ``acknowledges``, ``confirmsReceipt``.
/// - *Input*: ``start(_:)``, ``next(_:_:)``, ``inputEnded(_:)``, ``deadlineReached(_:)``. They report what has happened.
/// - *Output*: ``send(_:id:_:)``, ``sendEncoded(_:_:)``, ``confirmReceipt(_:)``, ``ping(_:)``, ``close(_:_:)``. They write to
///   ``CoreContext/output``, and report nothing.
/// - *State*: ``deadline``, ``bufferedBytes``, ``unacknowledgedBytes``. The driver reads it after each of the others.
///
/// # The order of calls
///
/// 1. ``start(_:)``, once, before all others.
/// 2. ``next(_:_:)``, after each other call of the group Input, after ``close(_:_:)``, and whenever bytes have arrived. The
///    driver repeats it until it returns `nil`. A driver may pause while its messages are not consumed, and continue later.
/// 3. ``deadlineReached(_:)``, once the time is at or past ``deadline``.
/// 4. The calls of the group Output, from ``CoreEvent/opened`` on. After ``close(_:_:)``, no message is sent. The calls
///    ``sendEncoded(_:_:)``, ``ping(_:)`` and ``confirmReceipt(_:)`` are still allowed then, but their output may be dropped.
/// 5. ``inputEnded(_:)``, when the peer has ended its half of a byte stream and all input was read. It may be called again.
/// 6. ``connectionEnded()``, once. Only ``confirmReceipt(_:)`` may follow. A driver that does not wait for the peer's answer
///    calls it right after ``close(_:_:)``.
///
/// A core never calls the driver. Between two calls the driver may hand the output to the network, in whole or in part.
///
/// # Input
///
/// Over a byte stream, the input holds the bytes that have arrived and were not consumed. A core consumes whole units
/// and leaves the rest. Over datagrams, the input holds exactly one datagram, which a core consumes completely.
///
/// # Errors
///
/// An error is final, unless ``send(_:id:_:)`` or ``ping(_:)`` has thrown it. After a final error, the driver flushes
/// the output, which may end with a close frame that carries the reason. Then it ends the connection. After
/// ``CoreEvent/closed(_:)`` it does the same without an error.
public protocol ProtocolCore: Sendable {
    // MARK: Facts

    /// The capabilities of this core's connections.
    var capabilities: Capabilities { get }

    /// Whether messages may be acknowledged (``SendStatus/awaitingAcknowledgement``). The default is `true`, which is
    /// correct for every core. Sending from another thread costs less with `false`.
    var acknowledges: Bool { get }

    /// Whether the peer is notified of each message only when its receiver has processed it. The driver then calls
    /// ``confirmReceipt(_:)``. The default is `false`.
    var confirmsReceipt: Bool { get }

    /// Returns whether a message may be acknowledged. The driver calls it if ``acknowledges`` is `true`. The default is
    /// `true`, which is correct for every message.
    ///
    /// - Parameter payload: the message to send.
    func acknowledges(_ payload: Payload) -> Bool

    /// The client that a server's handshake has authenticated. The driver reads it once, after ``CoreEvent/opened``.
    /// The default is `nil`.
    var identity: Identity? { get }

    // MARK: Input

    /// Opens the connection: a client writes its handshake, a server sets its deadline for the handshake.
    ///
    /// - Parameter context: provides the time and random numbers, and takes the output.
    mutating func start(_ context: inout CoreContext)

    /// Reads until there is something to report.
    ///
    /// - Parameters:
    ///   - input: the bytes that have arrived. The core consumes those that it has processed.
    ///   - context: provides the time and random numbers, and takes the output.
    /// - Returns: the next event, or `nil` if more bytes are needed.
    /// - Throws: the error that ends the connection.
    mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError) -> CoreEvent?

    /// Handles the end of the input: the peer has closed its half of the byte stream, and all input was read.
    ///
    /// - Parameter context: provides the time and random numbers, and takes the output.
    /// - Returns: ``CoreEvent/closed(_:)`` if the connection may end here.
    /// - Throws: the error that ends the connection, for example because a message is incomplete.
    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent

    /// Handles the deadline: the time is at or past ``deadline``.
    ///
    /// - Parameter context: provides the time and random numbers, and takes the output.
    /// - Throws: the error that ends the connection, for example because an answer is missing.
    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError)

    /// Releases memory when the connection has ended for its users and nothing more is read, because the connection may
    /// linger. It drops incomplete messages and everything that only further messages need. The default does nothing.
    mutating func connectionEnded()

    // MARK: Output

    /// Writes one message.
    ///
    /// - Parameters:
    ///   - payload: the message.
    ///   - id: names the message in ``CoreEvent/acknowledged(_:)``.
    ///   - context: provides the time and random numbers, and takes the output.
    /// - Returns: whether an acknowledgement follows.
    /// - Throws: the reason why the message cannot be sent. Nothing was written then, and the connection stays open.
    mutating func send(_ payload: Payload, id: UInt64, _ context: inout CoreContext) throws(TransportError)
        -> SendStatus

    /// Writes one message that is already encoded in the format of this core, so that a server encodes it once for many
    /// connections. The default writes the bytes as they are.
    ///
    /// - Parameters:
    ///   - bytes: the encoded message.
    ///   - context: takes the output.
    mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext)

    /// Notes that the receiver has processed the oldest message that was reported and not confirmed. The driver may
    /// call it after the end of the connection; its output is dropped then. The default does nothing.
    ///
    /// - Parameter context: takes the output.
    mutating func confirmReceipt(_ context: inout CoreContext)

    /// Writes a ping, which ``CoreEvent/pong(_:)`` answers.
    ///
    /// - Parameter context: takes the output.
    /// - Returns: the number of the ping, which is greater than those of all earlier pings.
    /// - Throws: `.unsupported` if the protocol has no ping.
    @discardableResult
    mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64

    /// Begins the close handshake. ``CoreEvent/closed(_:)`` follows at once if the protocol has none.
    ///
    /// - Parameters:
    ///   - reason: the reason to send to the peer.
    ///   - context: provides the time and random numbers, and takes the output.
    mutating func close(_ reason: CloseReason, _ context: inout CoreContext)

    // MARK: State

    // These are `mutating` so that the driver reads them in place after each message. Otherwise, reading from an
    // existential copies it.

    /// When to call ``deadlineReached(_:)`` next, or `nil` if there is no deadline.
    var deadline: Instant? { mutating get }

    /// How many bytes of memory the peer makes the core use: for incomplete messages, for compression, and for
    /// what the peer has declared about itself. The default is 0.
    var bufferedBytes: Int { mutating get }

    /// How many bytes of messages the peer has not acknowledged, if the protocol repeats them itself.
    /// The default is 0. Over byte streams, the driver reads this number from the stream.
    var unacknowledgedBytes: Int { mutating get }
}

extension ProtocolCore {
    /// The default `true` is correct for every core.
    public var acknowledges: Bool { true }
    /// The default `false` means that the driver does not call ``confirmReceipt(_:)``.
    public var confirmsReceipt: Bool { false }
    /// The default `true` is correct for every message.
    public func acknowledges(_: Payload) -> Bool { true }
    /// The default `nil` means that the handshake authenticates no client.
    public var identity: Identity? { nil }
    /// The default does nothing.
    public mutating func connectionEnded() {}
    /// The default writes the bytes as they are.
    public mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        context.output.append(contentsOf: bytes)
    }
    /// The default does nothing.
    public mutating func confirmReceipt(_ context: inout CoreContext) {}
    /// The default 0 means that the peer cannot make the core use memory.
    public var bufferedBytes: Int {
        mutating get { 0 }
    }
    /// The default 0 means that the protocol does not repeat messages itself.
    public var unacknowledgedBytes: Int {
        mutating get { 0 }
    }
}

/// The state of a message after ``ProtocolCore/send(_:id:_:)``.
public enum SendStatus: Sendable, Hashable {
    /// The message is in the output. The protocol has no acknowledgement.
    case written
    /// The message is in the output. ``CoreEvent/acknowledged(_:)``, ``CoreEvent/written(_:)`` or
    /// ``CoreEvent/refused(_:_:)`` will follow.
    case awaitingAcknowledgement
    /// The protocol's window is full. Nothing was written. The driver tries again after the next acknowledgement.
    case blocked
}

/// The ids of messages that are sent.
package enum SendID {
    /// The bit that distinguishes ids which all connections of a transport share from ids which a driver assigns for
    /// one connection.
    package static let named: UInt64 = 1 << 63

    /// Returns whether a later connection may query the state of the message (``PackageCore/completion(of:_:)``).
    package static func isNamed(_ id: UInt64) -> Bool { id & named != 0 && id != .max }
}

/// An event that a core reports to its driver. It is small enough to be passed in registers, because each message is
/// one event. Large and rare payloads are therefore indirect.
public enum CoreEvent: Sendable {
    /// Messages may flow. The handshake is complete, unless MQTT publishes early. This event comes exactly once, before all others.
    case opened
    /// A message has arrived.
    case message(Payload)
    /// The peer has answered the ping with this number, and with it all earlier ones. It may have answered them before,
    /// and the core may have sent the ping by itself.
    case pong(UInt64)
    /// The peer has acknowledged the message with this id.
    case acknowledged(UInt64)
    /// The peer has accepted the connection over which the message with this id was sent, and acknowledges no message of
    /// its kind.
    case written(UInt64)
    /// The peer has refused the message with this id.
    indirect case refused(UInt64, TransportError)
    /// A message larger than allowed was skipped, and the peer was notified that it need not send it again.
    indirect case discarded(DiscardedMessage)
    /// An event that only this protocol has.
    case signal(any CoreSignal)
    /// The core has done work that needs no report, and there may be more. The driver may serve other connections
    /// first.
    case progress
    /// The connection has ended cleanly. This is the last event.
    indirect case closed(CloseReason)
}

/// An event beyond the common ones, for servers that know the protocol.
public protocol CoreSignal: AnyObject, Sendable {}

/// The side of the protocol that a core plays.
public enum CoreRole: Sendable, Hashable {
    /// The side that connects.
    case client
    /// The side that accepts connections.
    case server
}

/// The environment of a core: the time, random numbers, and the output.
public struct CoreContext: ~Copyable, Sendable {
    /// The current time.
    public var now: Instant
    /// The time of the calendar when the connection began, in seconds since 1970-01-01 UTC; `nil` if it is not known.
    package var unixTime: Int64?
    /// Whether the bytes of the peer come over TLS. It is known at ``ProtocolCore/start(_:)``.
    package var isEncrypted = false
    /// The source of random numbers.
    public var random: RandomSource
    /// The bytes to send to the peer.
    public var output = ByteBuffer()
    /// The end of each datagram in ``output``, counted from the first unread byte. Empty over byte streams.
    public var datagramEnds: [Int] = []
    /// The size in bytes of the smallest datagram that the system has refused as too long. The core resets it to `nil`
    /// after reading it.
    public var refusedDatagram: Int?
    /// The last time when received bytes may have been left unread, because the application did not consume messages or
    /// because the process was stopped. A missing answer may have been among them. The value is up to date when
    /// ``ProtocolCore/deadlineReached(_:)`` is called.
    public var unreadUntil = Instant.zero
    /// When output last began to wait for the kernel, when the kernel last took some that had to wait, or when a deadline
    /// last found that output of the deadline before has reached the peer. The peer cannot have answered waiting output
    /// before that time.
    public var outputMoved = Instant.zero
    /// The counters for the connection's statistics.
    public var counters = CoreCounters()

    /// Creates a context with empty output.
    ///
    /// - Parameters:
    ///   - now: the current time.
    ///   - random: the source of random numbers.
    public init(now: Instant = .zero, random: RandomSource) {
        self.now = now
        self.random = random
    }

    /// Ends the datagram whose bytes were just written to ``output``.
    public mutating func endDatagram() {
        datagramEnds.append(output.count)
    }
}

/// The counters of a core.
public struct CoreCounters: Sendable, Hashable {
    /// Frames without a message of the application, sent and received.
    public var controlFrames: UInt64 = 0
    /// Received frames that carry no message and answer nothing, but cost work: pings, subscriptions, repetitions,
    /// empty fragments.
    public var controlWork: UInt64 = 0
    /// Acknowledgements of messages that were not in flight. They were ignored.
    public var unexpectedAcknowledgements: UInt64 = 0
    /// Messages that arrived again and were dropped.
    public var duplicates: UInt64 = 0
    /// Messages that arrived after a later one.
    public var reordered: UInt64 = 0
    /// Bytes of datagrams that only repeated what had arrived. The peer sends them because it does not receive this
    /// side's answers, so they are no sign that the connection is alive.
    public var repeatedBytes: UInt64 = 0

    /// Creates counters that are all zero.
    public init() {}
}
