/// Carries a protocol's own event through code that does not know the protocol.
final class SignalCarrier<Signal: Sendable>: CoreSignal {
    /// The event.
    let signal: Signal

    init(_ signal: Signal) {
        self.signal = signal
    }
}
