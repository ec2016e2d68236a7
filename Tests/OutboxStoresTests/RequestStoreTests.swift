import TestSupport
import Testing

@testable import OutboxStores
@testable import TransportAPI

@Suite("Requests of a supervisor with a store", .timeLimit(.minutes(5)), .ownThread)
struct RequestStoreTests {
    private let runtime = VirtualRuntime(blockingTime: .milliseconds(10))
    private let script = Script()

    private func supervisor(_ folder: borrowing StoreFolder) throws -> Supervisor {
        var setup = try script.setup { $0.delivery.mode = .session }
        setup.store = FileOutboxStore(path: folder.store)
        return try Supervisor(setup, on: runtime)
    }

    private func open(_ supervisor: Supervisor) throws -> ScriptedConnection {
        supervisor.connect()
        runtime.advance(by: .milliseconds(100))
        let connection = try #require(script.last)
        connection.give(SessionFrame.welcome(incarnation: 7, received: 0).payload)
        runtime.settle()
        return connection
    }

    private func frames(_ connection: ScriptedConnection) -> [SessionFrame] {
        connection.sent.compactMap { try? SessionFrame($0) }
    }

    @Test("A request is acknowledged once the disk has its answer")
    func answer() throws {
        let folder = try StoreFolder()
        let supervisor = try supervisor(folder)
        supervisor.onRequest(on: runtime) { bytes("re: " + $0.string) }
        let connection = try open(supervisor)
        let request = RequestEnvelope.request(9, Array("hello".utf8)).payload()
        connection.give(SessionFrame.message(1, request).payload)
        runtime.settle()
        // The answer is not in the store yet, and then the store does not know that the request was processed.
        for _ in 1...2 {
            runtime.advance(by: .milliseconds(10))
            #expect(!frames(connection).contains(.acknowledge(1)))
        }
        runtime.advance(by: .milliseconds(10))
        let answer = RequestEnvelope.reply(9, Array("re: hello".utf8)).payload()
        #expect(frames(connection).suffix(2).contains(.message(1, answer)))
        #expect(frames(connection).suffix(2).contains(.acknowledge(1)))
        _ = runtime.begin { await supervisor.close() }
        runtime.advance(by: .seconds(20))
    }

    @Test("A request is sent once the disk has it, and its time limit includes that")
    func request() throws {
        let folder = try StoreFolder()
        let supervisor = try supervisor(folder)
        let connection = try open(supervisor)
        func ask(_ timeout: Duration) -> Pending<RequestAnswer> {
            runtime.begin {
                do throws(RequestError) {
                    return .success(try await supervisor.request(bytes("question"), timeout: timeout))
                } catch {
                    return .failure(error)
                }
            }
        }
        let before = connection.sent.count
        let (late, answered) = (ask(.milliseconds(5)), ask(.seconds(5)))
        #expect(connection.sent.count == before)
        runtime.advance(by: .milliseconds(5))
        guard case .failure(.notSent(let error))? = late.value else {
            Issue.record("\(String(describing: late.value))")
            return
        }
        #expect(error.code == .timedOut)
        runtime.advance(by: .milliseconds(50))
        let requests = frames(connection).compactMap { frame -> UInt64? in
            guard case .message(_, let payload, _) = frame, case .request(let number, _)? = RequestEnvelope(payload)
            else {
                return nil
            }
            return number
        }
        #expect(requests.count == 1 && answered.value == nil)
        let answer = RequestEnvelope.reply(requests.first ?? 0, [1]).payload()
        connection.give(SessionFrame.message(1, answer).payload)
        runtime.settle()
        #expect(answered.value == .success(Payload([1])))
        _ = runtime.begin { await supervisor.close() }
        runtime.advance(by: .seconds(20))
    }

    @Test("A request ends at its time limit while the store is still opened")
    func storeNotOpen() throws {
        let folder = try StoreFolder()
        let supervisor = try supervisor(folder)
        let answer: Pending<RequestAnswer> = runtime.begin {
            do throws(RequestError) {
                return .success(try await supervisor.request(bytes("question"), timeout: .milliseconds(5)))
            } catch {
                return .failure(error)
            }
        }
        runtime.advance(by: .milliseconds(4))
        #expect(answer.value == nil)
        runtime.advance(by: .milliseconds(1))
        guard case .failure(.notSent(let error))? = answer.value else {
            Issue.record("\(String(describing: answer.value))")
            return
        }
        #expect(error.code == .timedOut && error.reason.contains("store"))
        // Nothing of it is sent later.
        #expect(!frames(try open(supervisor)).contains { if case .message = $0 { true } else { false } })
        _ = runtime.begin { await supervisor.close() }
        runtime.advance(by: .seconds(20))
    }
}
