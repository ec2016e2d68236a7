import TransportAPI

/// A protocol as a value that does no I/O: bytes in, bytes out, events out, next deadline out. The time and random numbers
/// come in with the ``CoreContext``. One core serves client and server, by role; a shared driver runs any core over a byte
/// stream or over datagrams.
///
/// The contract with the driver:
/// - The driver calls ``start(_:)`` once, then ``next(_:_:)`` until it returns `nil` whenever bytes have arrived, a
///   deadline was reached, or a message was sent; it may stop calling in between, when nobody consumes messages.
/// - Over a byte stream the input holds what has arrived and is not consumed yet; the core consumes whole units and leaves
///   the rest. Over datagrams the input holds exactly one datagram, of which the core leaves nothing.
/// - An error that a method other than `send` throws is final: the driver flushes the output (where the core may have put a
///   goodbye that tells the reason) and ends the connection. After ``CoreEvent/closed(_:)`` it does the same without an error.
public protocol ProtocolCore: Sendable {
    /// What this core's connections can do.
    var capabilities: Capabilities { get }

    /// Whether the far side is to hear of each message only when its receiver is done with it; the driver then calls
    /// ``confirmReceipt(_:)``. It stays the same. Default: no.
    var confirmsReceipt: Bool { get }

    /// Whether messages may be acknowledged (``SendStatus/awaitingAcknowledgement``). It stays the same. Default: yes, which is
    /// always right; sending from another thread costs less where it says no.
    var acknowledges: Bool { get }

    /// Whether this message may be acknowledged, where ``acknowledges`` says that some may. Default: yes, which is
    /// always right.
    func acknowledges(_ payload: Payload) -> Bool

    /// Where the connection is to be had instead, once the handshake has failed for that reason. Default: nowhere.
    var redirection: Redirection? { get }

    /// How many bytes are kept for the connection that a far side can make more: of a message that has not arrived whole, for
    /// compression, of what it has said of itself. Default: none. `mutating`, here and in the cores, so that it is asked where
    /// the core lies: asking an existential otherwise copies it, and the driver asks after each message.
    var bufferedBytes: Int { mutating get }

    /// How many bytes of messages were taken that the peer has not acknowledged, where the protocol repeats them itself over
    /// datagrams. Default: 0; over byte streams the driver asks the stream.
    var unacknowledgedBytes: Int { mutating get }

    /// The receiver is done with the oldest message that was reported and not confirmed: it has asked for the next one. May
    /// come after the connection's end; what is written then goes nowhere.
    mutating func confirmReceipt(_ context: inout CoreContext)

    /// Opens the connection: a client writes its handshake, a server sets its deadline for one.
    mutating func start(_ context: inout CoreContext)

    /// Reads on until there is something to report; `nil` when more bytes are needed.
    mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError) -> CoreEvent?

    /// The far side has closed its half of the byte stream and all input was read.
    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent

    /// Writes one message. Throws, having written nothing, if it cannot be sent; the connection lives on.
    ///
    /// - Parameter id: names the message in ``CoreEvent/acknowledged(_:)``.
    mutating func send(_ payload: Payload, id: UInt64, _ context: inout CoreContext) throws(TransportError)
        -> SendStatus

    /// What became of a message that the core of the connection before was given under this id, and had not seen
    /// acknowledged when its connection ended; `nil` if nothing is known of it. Asked once, where
    /// ``Capabilities/completesSends`` says that connections complete what others have left. Only ids with
    /// ``SendID/named`` are the same for all connections. Default: `nil`.
    mutating func completion(of id: UInt64) -> SendCompletion?

    /// Writes one message that is encoded already in the core's own format, so that a server encodes once for many. The
    /// connection is open.
    mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext)

    /// Writes a ping; ``CoreEvent/pong`` answers it. Throws `.unsupported` where the protocol has none.
    mutating func ping(_ context: inout CoreContext) throws(TransportError)

    /// What is sent leaves from another address by now, which the far side should hear of. Only over datagrams.
    mutating func moved(_ context: inout CoreContext)

    /// Begins to say goodbye. ``CoreEvent/closed(_:)`` comes at once where the protocol has no answer to wait for.
    mutating func close(_ reason: CloseReason, _ context: inout CoreContext)

    /// The connection has ended for its users, for whatever reason: nothing more is read. Lets go of messages that have
    /// come in part and of what reads and writes further ones, since the connection may linger, or its user keep it.
    /// Default: does nothing.
    mutating func connectionEnded()

    /// When ``deadlineReached(_:)`` wants to be called next. `mutating` as ``bufferedBytes`` is.
    var deadline: Instant? { mutating get }

    /// The time is at or past ``deadline``. The driver calls ``next(_:_:)`` after it.
    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError)
}

extension ProtocolCore {
    /// Nowhere.
    public var redirection: Redirection? { nil }
    /// No.
    public var confirmsReceipt: Bool { false }
    /// Yes.
    public var acknowledges: Bool { true }
    /// Yes.
    public func acknowledges(_: Payload) -> Bool { true }
    /// None.
    public var bufferedBytes: Int {
        mutating get { 0 }
    }
    /// Nothing is known.
    public mutating func completion(of id: UInt64) -> SendCompletion? { nil }
    /// Nothing is repeated.
    public var unacknowledgedBytes: Int {
        mutating get { 0 }
    }
    /// Does nothing.
    public mutating func confirmReceipt(_ context: inout CoreContext) {}
    /// Does nothing.
    public mutating func moved(_ context: inout CoreContext) {}
    /// Does nothing.
    public mutating func connectionEnded() {}
    /// Writes the bytes as they are.
    public mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        context.output.append(contentsOf: bytes)
    }
}

/// What became of a message that a core was given.
public enum SendStatus: Sendable, Hashable {
    /// It is in the output; the protocol has no acknowledgement.
    case written
    /// It is in the output; ``CoreEvent/acknowledged(_:)`` or ``CoreEvent/refused(_:_:)`` will follow.
    case awaitingAcknowledgement
    /// The protocol's window is full: nothing was written, try again after the next acknowledgement.
    case blocked
}

/// How far a message has come that an earlier connection has left.
public enum SendCompletion: Sendable, Hashable {
    /// ``CoreEvent/acknowledged(_:)`` will follow under the same id.
    case pending
    /// The peer has acknowledged it over this connection already.
    case acknowledged
}

/// The ids of messages that are sent.
public enum SendID {
    /// The bit that tells ids that all connections of a transport share from those that a driver counts for one connection.
    public static let named: UInt64 = 1 << 63

    /// Whether a later connection may ask what became of the message (``ProtocolCore/completion(of:)``).
    public static func isNamed(_ id: UInt64) -> Bool { id & named != 0 && id != .max }
}

/// What a core tells its driver. Small enough to go from one to the other in registers, since one goes with each
/// message: what is large and rare lies elsewhere.
public enum CoreEvent: Sendable {
    /// The handshake is complete; messages may flow. Exactly once, and first.
    case opened
    /// A message has arrived.
    case message(Payload)
    /// The answer to the oldest ping that was not answered yet.
    case pong
    /// The far side has confirmed the message of this id.
    case acknowledged(UInt64)
    /// The far side has refused the message of this id.
    indirect case refused(UInt64, TransportError)
    /// A message larger than allowed was passed over, and the peer was told that it need not send it again.
    indirect case discarded(DiscardedMessage)
    /// Something that only this protocol has.
    case signal(any CoreSignal)
    /// Work was done of which nobody needs to hear, and there may be more: whoever drives the core may see to others first.
    case progress
    /// The connection has ended cleanly; the last event.
    indirect case closed(CloseReason)
}

/// What a core may report beyond the common events, to servers that know the protocol.
public protocol CoreSignal: AnyObject, Sendable {}

/// Client or server: which side of the protocol a core plays.
public enum CoreRole: Sendable, Hashable {
    case client, server
}

/// What a core gets with each call, and where it writes.
public struct CoreContext: ~Copyable, Sendable {
    /// The present time.
    public var now: Instant
    /// Random numbers.
    public var random: RandomSource
    /// What goes to the far side.
    public var output = ByteBuffer()
    /// Where each datagram in ``output`` ends, counted from the first byte that waits; empty over byte streams.
    public var datagramEnds: [Int] = []
    /// The smallest datagram that the system has refused as too long since the core took note, in bytes.
    public var refusedDatagram: Int?
    /// Whether datagrams leave from another address since ``ProtocolCore/moved(_:)`` was called.
    public var hasMoved = false
    /// Until when this side has not read all that had come, because nobody consumed: an answer that is missing may have
    /// been there. Up to date when ``ProtocolCore/deadlineReached(_:)`` is called.
    public var unreadUntil = Instant.zero
    /// When output last began to wait for the kernel, or the kernel took some of what waited: until then nothing that
    /// was written can have been answered.
    public var outputMoved = Instant.zero
    /// What the core counts for the connection's statistics.
    public var counters = CoreCounters()

    /// A context whose output is empty.
    public init(now: Instant = .zero, random: RandomSource) {
        self.now = now
        self.random = random
    }

    /// Ends the datagram whose bytes were just written to ``output``.
    public mutating func endDatagram() {
        datagramEnds.append(output.count)
    }
}

/// What a core counts.
public struct CoreCounters: Sendable, Hashable {
    /// Frames without a user's message, sent and received.
    public var controlFrames: UInt64 = 0
    /// Frames received that bring no message and answer nothing, but want work done: pings, subscriptions, repetitions,
    /// empty fragments.
    public var controlWork: UInt64 = 0
    /// Acknowledgements of what was not in flight, which were ignored.
    public var unexpectedAcknowledgements: UInt64 = 0
    /// Messages that arrived again and were dropped.
    public var duplicates: UInt64 = 0
    /// Messages that arrived after a later one.
    public var reordered: UInt64 = 0
    /// Bytes of datagrams that only repeated what had arrived. They come because this side's answers do not reach the far one,
    /// and are no sign that the connection is alive.
    public var repeatedBytes: UInt64 = 0

    /// All at zero.
    public init() {}
}
