import SocketIO

@testable import imbench

/// A loop for tests that depend on the clock. On the shared loop they would wait for all other tests.
enum QuietLoop {
    private static let made = Result { () throws(SystemError) in try EventLoop(name: "im-quiet") }

    static func get() throws -> EventLoop { try made.get() }
}
