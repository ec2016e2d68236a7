extension HTTPServerCore {
    /// A connection that is no WebSocket carries the requests of sessions.
    package var isCarrier: Bool { !isWebSocket }
}
