extension EventLoop {
    /// The loop that transports use when none is named.
    public static let shared: EventLoop = {
        do {
            return try EventLoop(name: "im-shared")
        } catch {
            // Without one descriptor and one thread at the first use, no transport can do anything.
            fatalError("the shared event loop can't start: \(error)")
        }
    }()
}
