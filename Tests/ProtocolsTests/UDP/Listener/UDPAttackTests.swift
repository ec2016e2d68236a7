import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Floods against a server.
@Suite("UDP: attacks")
struct UDPAttackTests {
    private static func address(_ number: Int) -> [UInt8] {
        [10, UInt8(number >> 16 & 255), UInt8(number >> 8 & 255), UInt8(number & 255), 4, 0]
    }

    private static func request(_ kind: UInt8, _ random: inout RandomSource) -> [UInt8] {
        [0x49, 0x4d, 1, kind] + (0..<60).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    @Test("Half-open clients, guessed cookies and garbage leave nothing behind, and a real client still connects")
    func halfOpen() throws {
        var server = try SimulatedServer(UDPConfiguration(maximumSessions: 4))
        var random = RandomSource.seeded(3)
        for number in 0..<3000 {
            let address = Self.address(number)
            #expect(server.receive(Self.request(1, &random), from: address).map { $0[3] } == [2])
            var confirm = Self.request(3, &random)
            confirm[20] = UInt8(number % 3)
            #expect(server.receive(confirm, from: address).map { $0[3] } == [2])
            let garbage = (0..<number % 1300).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            #expect(server.receive(garbage, from: address).isEmpty)
        }
        #expect(server.listener.sessionCount == 0 && server.sessions.isEmpty && server.events.isEmpty)
        var client = try startedClient()
        exchange(&client, &server)
        #expect(client.isOpen && server.listener.sessionCount == 1)
    }

    @Test("A cookie is invalid at another server, from another port, for another attempt, and after its time")
    func foreignCookies() throws {
        var server = try SimulatedServer()
        var other = try SimulatedServer(seed: 5)
        var client = try startedClient()
        let hello = client.takeDatagrams()[0]
        let cookie = server.receive(hello)[0][12..<20]
        let confirm = [0x49, 0x4d, 1, 3] + hello[4..<12] + cookie + [UInt8](repeating: 0, count: 44)
        #expect(other.receive(confirm).map { $0[3] } == [2])
        #expect(server.receive(confirm, from: [127, 0, 0, 1, 0, 81]).map { $0[3] } == [2])
        var attempt = confirm
        attempt[11] ^= 1
        #expect(server.receive(attempt).map { $0[3] } == [2])
        // Keys change every two minutes and are kept for two more, so each one is gone after four.
        server.now = Instant.zero.advanced(by: .seconds(240))
        #expect(server.receive(confirm).map { $0[3] } == [2])
        #expect(server.listener.sessionCount + other.listener.sessionCount == 0)
    }

    @Test("A guessed connection id reaches no session, and its answer is smaller than the guess")
    func guessedIdentifiers() throws {
        var pair = try ReliablePair()
        var random = RandomSource.seeded(4)
        for number in 0..<4000 {
            let kind = UInt8([5, 6, 7, 8, 9, 12][number % 6])
            var guess = Self.request(kind, &random)
            guess = Array(guess.prefix([6, 7].contains(kind) ? 20 : kind == 9 ? 12 : 64))
            // Every second guess is wrong in the last byte only.
            if number % 2 == 0 { guess.replaceSubrange(4..<11, with: pair.wireIdentifier.prefix(7)) }
            if guess[4..<12].elementsEqual(pair.wireIdentifier) { continue }
            let answers = pair.server.receive(guess, from: Self.address(number))
            #expect(answers.count <= 1 && answers.allSatisfy { $0.count < guess.count && $0[3] == 9 })
        }
        #expect(pair.server.events.count == 1 && pair.server.failures.isEmpty && pair.server.sessions.count == 1)
        #expect(try pair.client.send(Payload([1])) == .written)
        pair.run()
        #expect(pair.server.messages == [[1]])
    }

    @Test("A server whose app accepts too slowly refuses clients as if it were full")
    func acceptQueue() throws {
        var server = try SimulatedServer()
        server.listener.hasRoom = false
        var client = try startedClient()
        exchange(&client, &server)
        #expect(client.failure?.code == .serverUnavailable && server.listener.sessionCount == 0)
        server.listener.hasRoom = true
        var next = try startedClient(seed: 2)
        exchange(&next, &server)
        #expect(next.isOpen == true)
    }
}
