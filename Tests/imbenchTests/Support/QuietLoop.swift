import SocketIO

@testable import imbench

/// A loop for tests that go by the clock: on the shared one they would wait for all other tests.
enum QuietLoop {
    private static let made = Result { () throws(SystemError) in try EventLoop(name: "im-quiet") }

    static func get() throws -> EventLoop { try made.get() }
}
