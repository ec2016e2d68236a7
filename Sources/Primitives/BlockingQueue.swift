/// Runs work that may block, one piece at a time and in order, outside an event loop.
package protocol BlockingQueue: Sendable {
    /// Adds a piece of work at the end.
    func run(_ work: @escaping @Sendable () -> Void)
}
