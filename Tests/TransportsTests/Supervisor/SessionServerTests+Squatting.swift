import Testing
import TransportAPI

// Clients that take all places of a server of sessions.
extension SessionServerTests {
    private func id(_ number: Int) -> SessionID { SessionID(high: UInt64(number), low: 99) }

    /// A client says hello and is gone.
    private func squat(_ number: Int, from network: UInt64? = nil) {
        client(id(number), from: network).end(CloseReason(.network))
        runtime.settle()
    }

    /// A client sends a message and is gone, and comes again later if its session is there still.
    private func use(_ number: Int, from network: UInt64? = nil) throws -> UInt64 {
        let connection = client(id(number), from: network)
        connection.give(.message(1, bytes("hello")))
        runtime.settle()
        connection.end(CloseReason(.network))
        runtime.settle()
        return try #require(connection.incarnation)
    }

    private func isKept(_ number: Int, _ incarnation: UInt64) -> Bool {
        let connection = client(id(number), incarnation: incarnation)
        defer {
            connection.end(CloseReason(.network))
            runtime.settle()
        }
        return connection.incarnation == incarnation
    }

    @Test("takes a newcomer at once, though an address has left as many sessions behind as there may be")
    func squatters() throws {
        _ = server { $0.maximumSessions = 1000 }
        for number in 0..<2000 { squat(number, from: 7) }
        let connection = client(ann, from: 8)
        #expect(connection.incarnation != nil && !connection.hasEnded)
        // Also one from the same address.
        #expect(client(SessionID(high: 5, low: 5), from: 7).incarnation != nil)
    }

    @Test("lets sessions make room that were never used before those that were, and of each those left longest ago")
    func order() throws {
        _ = server { $0.maximumSessions = 4 }
        let (first, second) = (try use(1), try use(2))
        squat(3)
        squat(4)
        for number in 5...6 { _ = client(id(number)) }
        #expect(isKept(1, first) && isKept(2, second))
        // Both have been away since: the first for longer.
        _ = client(id(7))
        #expect(isKept(2, second))
        #expect(!isKept(1, first))
    }

    @Test("lets sessions of an address that has a 64th of all make room before all others, also used ones")
    func crowd() throws {
        _ = server { $0.maximumSessions = 128 }
        squat(0, from: 1)
        let honest = try use(1, from: 2)
        for number in 2..<128 { _ = try use(number, from: 3) }
        for number in 128..<200 { squat(number, from: UInt64(number)) }
        #expect(isKept(1, honest))
    }

    @Test("takes a newcomer though an address holds all places with connections that say nothing after their hello")
    func linkedSquatters() throws {
        _ = server { $0.maximumSessions = 100 }
        let connections = (0..<100).map { client(id($0), from: 7) }
        #expect(client(ann, from: 8).incarnation != nil)
        #expect(connections.count { $0.hasEnded } == 1 && connections[1].hasEnded)
    }

    @Test("never ends a session that has a connection and is used for a newcomer, which is refused")
    func inUse() throws {
        _ = server { $0.maximumSessions = 2 }
        for number in 0..<2 {
            let connection = client(id(number), from: 7)
            connection.give(.message(1, bytes("hello")))
            runtime.settle()
        }
        #expect(client(ann, from: 8).frames == [.refused(.full)])
    }

    @Test(
        "ends the oldest connection that has not said hello when there are too many, first of an address that has many"
    )
    func silentConnections() throws {
        _ = server { $0.maximumNewcomers = 64 }
        let honest = listener.connect(from: 1)
        let silent = (0..<200).map { _ in listener.connect(from: 7) }
        runtime.settle()
        #expect(silent.count { !$0.hasEnded } == 63 && !honest.hasEnded)
        honest.give(.hello(ann, incarnation: 0, received: 0))
        runtime.settle()
        #expect(honest.incarnation != nil)
        runtime.advance(by: .seconds(11))
        #expect(silent.allSatisfy { $0.hasEnded })
        #expect(runtime.timerCount == 0)
    }
}
