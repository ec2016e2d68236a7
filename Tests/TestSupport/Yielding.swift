extension Task where Success == Never, Failure == Never {
    /// Yields as long as `condition` is true.
    ///
    /// The time limit of a test cancels its task. A loop that ignores this would keep the whole run from ending.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public static func yield(while condition: @autoclosure () async throws -> Bool) async throws {
        while try await condition() {
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}
