import TransportAPI

/// An event of STOMP that is not a message: the receipt of a request about subscriptions on the open connection.
package enum STOMPSignal: Sendable, Hashable {
    /// The broker has processed the `subscribe` of this id.
    case subscribed(UInt64)
    /// The broker has processed the `unsubscribe` of this id.
    case unsubscribed(UInt64)
}

extension CoreSignal {
    /// The signal, if a STOMP core has reported it; `nil` for other cores.
    package var stomp: STOMPSignal? { (self as? SignalCarrier<STOMPSignal>)?.signal }
}

extension CoreEvent {
    /// The event for a signal of STOMP.
    static func stomp(_ signal: STOMPSignal) -> CoreEvent { .signal(SignalCarrier(signal)) }
}
