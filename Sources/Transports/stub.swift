import TransportAPI

extension TransportDescriptor {
    static let tcp = TransportDescriptor(
        name: "",
        options: [],
        make: { _, _ throws(TransportError) in throw .notOpen },
        listen: { _, _, _ async throws(TransportError) in throw .notOpen }
    )
    static let webSocket = tcp, mqtt = tcp, udp = tcp
}
