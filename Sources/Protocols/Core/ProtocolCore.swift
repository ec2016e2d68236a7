import TransportAPI

/// A protocol as a value that does no I/O: bytes in, bytes out, events out, next deadline out.
///
/// The time and random numbers come in with the ``CoreContext``. One core serves client and server, by its role. One driver
/// runs any core over a byte stream or over datagrams.
///
/// # What a driver calls
///
/// The requirements are in four groups.
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
/// 2. ``next(_:_:)``, after each other call of the group Input, after ``close(_:_:)``, and whenever bytes have arrived. It is
///    called until it returns `nil`, but a driver may pause while its messages are not consumed, and continue later.
/// 3. ``deadlineReached(_:)``, once the time is at or past ``deadline``.
/// 4. The calls of the group Output, from ``CoreEvent/opened`` on. After ``close(_:_:)``, no message is sent, but
///    ``sendEncoded(_:_:)``, ``ping(_:)`` and ``confirmReceipt(_:)`` may still be called; what they write then need not leave.
/// 5. ``inputEnded(_:)``, when the peer has ended its half of a byte stream and all input was read. It may be called again.
/// 6. ``connectionEnded()``, once, as the last call but for ``confirmReceipt(_:)``. A driver that does not wait for an answer
///    calls it right after ``close(_:_:)``.
///
/// A core never calls the driver. Between two calls the driver may hand the output to the network, in whole or in part.
///
/// # Input
///
/// Over a byte stream, the input holds what has arrived and was not consumed. A core consumes whole units and leaves the rest.
/// Over datagrams, the input holds exactly one datagram, of which a core leaves nothing.
///
/// # Errors
///
/// An error that any method but ``send(_:id:_:)`` and ``ping(_:)`` throws is final. The driver flushes the output, where the
/// core may have written a close frame with the reason, and ends the connection. After ``CoreEvent/closed(_:)`` it does the
/// same without an error.
///
/// Abilities that few protocols have are refinements: ``RedirectingCore``, ``CompletingCore``, ``RoamingCore``.
public protocol ProtocolCore: Sendable {
    // MARK: Facts

    /// What the connections of this core can do.
    var capabilities: Capabilities { get }

    /// Whether messages may be acknowledged (``SendStatus/awaitingAcknowledgement``). Default: yes, which is always right.
    /// Sending from another thread costs less if it is no.
    var acknowledges: Bool { get }

    /// Whether the peer is notified of each message only when its receiver has processed it. The driver then calls
    /// ``confirmReceipt(_:)``. Default: no.
    var confirmsReceipt: Bool { get }

    /// Whether this message may be acknowledged, if ``acknowledges`` says that some may. Default: yes, which is always right.
    func acknowledges(_ payload: Payload) -> Bool

    /// The client that a server's handshake has authenticated. Read once, after ``CoreEvent/opened``. Default: `nil`.
    var identity: Identity? { get }

    // MARK: Input

    /// Opens the connection: a client writes its handshake, a server sets its deadline for one.
    mutating func start(_ context: inout CoreContext)

    /// Reads until there is something to report. Returns `nil` when more bytes are needed.
    mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError) -> CoreEvent?

    /// The peer has closed its half of the byte stream, and all input was read.
    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent

    /// The time is at or past ``deadline``.
    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError)

    /// The connection has ended for its users, and nothing more is read. Releases messages that have come in part and what
    /// reads and writes further ones, because the connection may linger. Default: does nothing.
    mutating func connectionEnded()

    // MARK: Output

    /// Writes one message. Throws, and writes nothing, if the message cannot be sent. The connection stays open then.
    ///
    /// - Parameter id: names the message in ``CoreEvent/acknowledged(_:)``.
    mutating func send(_ payload: Payload, id: UInt64, _ context: inout CoreContext) throws(TransportError)
        -> SendStatus

    /// Writes one message that is already encoded in the format of this core, so that a server encodes it once for many
    /// connections. Default: writes the bytes as they are.
    mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext)

    /// The receiver has processed the oldest message that was reported and not confirmed. May be called after the end of the
    /// connection. What is written then is dropped. Default: does nothing.
    mutating func confirmReceipt(_ context: inout CoreContext)

    /// Writes a ping, which ``CoreEvent/pong`` answers. Throws `.unsupported` if the protocol has none.
    mutating func ping(_ context: inout CoreContext) throws(TransportError)

    /// Begins the close handshake. ``CoreEvent/closed(_:)`` follows at once if the protocol has no answer to wait for.
    mutating func close(_ reason: CloseReason, _ context: inout CoreContext)

    // MARK: State

    // These are `mutating` so that the driver reads them in place: reading from an existential copies it otherwise, and the
    // driver reads them after each message.

    /// When to call ``deadlineReached(_:)`` next; `nil` if never.
    var deadline: Instant? { mutating get }

    /// How much memory a peer can make the core use, in bytes: for a message that has not arrived whole, for compression, for
    /// what the peer has said about itself. Default: 0.
    var bufferedBytes: Int { mutating get }

    /// How many bytes of messages the peer has not acknowledged, if the protocol repeats them itself over datagrams. Default:
    /// 0. Over byte streams the driver asks the stream.
    var unacknowledgedBytes: Int { mutating get }
}

extension ProtocolCore {
    /// Yes.
    public var acknowledges: Bool { true }
    /// No.
    public var confirmsReceipt: Bool { false }
    /// Yes.
    public func acknowledges(_: Payload) -> Bool { true }
    /// `nil`: the handshake authenticates no client.
    public var identity: Identity? { nil }
    /// Does nothing.
    public mutating func connectionEnded() {}
    /// Writes the bytes as they are.
    public mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        context.output.append(contentsOf: bytes)
    }
    /// Does nothing.
    public mutating func confirmReceipt(_ context: inout CoreContext) {}
    /// 0.
    public var bufferedBytes: Int {
        mutating get { 0 }
    }
    /// 0.
    public var unacknowledgedBytes: Int {
        mutating get { 0 }
    }
}

/// A core whose server may name another place to connect to.
package protocol RedirectingCore: ProtocolCore {
    /// Where to connect instead, if the handshake has failed for that reason; `nil` otherwise.
    var redirection: Redirection? { get }
}

/// A core that completes messages which the core of an earlier connection was given.
package protocol CompletingCore: ProtocolCore {
    /// The state of a message that an earlier core of the same transport was given under this id, and whose
    /// acknowledgement had not come when its connection ended. Returns `nil` if the core knows nothing of the message.
    ///
    /// It is called once for a message, where ``Capabilities/completesSends`` says that connections complete messages. Only
    /// ids with ``SendID/named`` are the same for all connections.
    mutating func completion(of id: UInt64) -> SendCompletion?
}

/// A core that explains a handshake that was not complete in time.
package protocol ExplainingCore: ProtocolCore {
    /// The sentence of the error: what did not come, and what the reason can be.
    var lateHandshake: String { get }
}

/// A core over datagrams whose connections survive a change of this side's address.
package protocol RoamingCore: ProtocolCore {
    /// Datagrams leave from another address from now on. The core notifies the peer.
    mutating func moved(_ context: inout CoreContext)
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
package enum SendCompletion: Sendable, Hashable {
    /// ``CoreEvent/acknowledged(_:)`` will follow under the same id.
    case pending
    /// The peer has acknowledged it over this connection already.
    case acknowledged
}

/// The ids of messages that are sent.
package enum SendID {
    /// The bit that tells ids that all connections of a transport share from those that a driver counts for one connection.
    package static let named: UInt64 = 1 << 63

    /// Whether a later connection may ask what became of the message (``ProtocolCore/completion(of:)``).
    package static func isNamed(_ id: UInt64) -> Bool { id & named != 0 && id != .max }
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
    /// The peer has confirmed the message of this id.
    case acknowledged(UInt64)
    /// The peer has refused the message of this id.
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
    /// What goes to the peer.
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
    /// Bytes of datagrams that only repeated what had arrived. They come because this side's answers do not reach the peer,
    /// and are no sign that the connection is alive.
    public var repeatedBytes: UInt64 = 0

    /// All at zero.
    public init() {}
}
