extension TransportRegistry {
    /// The transports that can be used on this machine.
    package static let trial = available
}
