import TransportAPI

/// A core of another package as a ``PackageCore``: it has the defaults for everything that ``ProtocolCore`` lacks.
package struct AdaptedCore<Base: ProtocolCore>: PackageCore {
    private var base: Base

    /// Creates a core that does what `base` does.
    package init(_ base: Base) {
        self.base = base
    }

    package var capabilities: Capabilities { base.capabilities }
    package var acknowledges: Bool { base.acknowledges }
    package var confirmsReceipt: Bool { base.confirmsReceipt }
    package func acknowledges(_ payload: Payload) -> Bool { base.acknowledges(payload) }
    package var identity: Identity? { base.identity }

    package mutating func start(_ context: inout CoreContext) { base.start(&context) }

    package mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        try base.next(&input, &context)
    }

    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        try base.inputEnded(&context)
    }

    package mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        try base.deadlineReached(&context)
    }

    package mutating func connectionEnded() { base.connectionEnded() }

    package mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        try base.send(payload, id: id, &context)
    }

    package mutating func sendEncoded(_ bytes: UnsafeRawBufferPointer, _ context: inout CoreContext) {
        base.sendEncoded(bytes, &context)
    }

    package mutating func confirmReceipt(_ context: inout CoreContext) { base.confirmReceipt(&context) }

    @discardableResult
    package mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 {
        try base.ping(&context)
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) { base.close(reason, &context) }

    package var deadline: Instant? {
        mutating get { base.deadline }
    }
    package var bufferedBytes: Int {
        mutating get { base.bufferedBytes }
    }
    package var unacknowledgedBytes: Int {
        mutating get { base.unacknowledgedBytes }
    }
}

extension ProtocolCore {
    /// The core as a ``PackageCore``: itself if it is one.
    package var packaged: any PackageCore { self as? any PackageCore ?? AdaptedCore(self) }
}
