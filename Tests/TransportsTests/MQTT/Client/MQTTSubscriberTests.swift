import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests the requests for filters without a connection.
@Suite("The subscriptions of an MQTT client", .timeLimit(.minutes(5)), .ownThread)
struct MQTTSubscriberTests {
    private let runtime = VirtualRuntime()

    @Test("A request that is cancelled without a connection leaves nothing, and others for its filter go on waiting")
    func cancelled() throws {
        let subscriber = RuntimeBound(
            TopicSubscriber(.mqtt, limit: 10, isSupervised: true, on: runtime) { _ in },
            to: runtime
        )
        func subscribe(_ filter: String, _ id: UInt64, isNew: Bool = true) -> Pending<TopicSubscriber.Answer> {
            runtime.begin {
                await subscriber.suspend(with: id, #isolation) {
                    $0.request(filter, .atLeastOnce, isNew: isNew, $1, $2)
                } onCancel: {
                    $0.cancel($1, for: filter)
                }
            }
        }
        func count() throws -> Int { try runtime.run { subscriber.value.waiting.count } }
        for number in 1...100 as ClosedRange<UInt64> {
            let pending = subscribe("answers/\(number)", number)
            runtime.settle()
            #expect(try count() == 1)
            pending.cancel()
            runtime.settle()
            guard case .failure(let error) = pending.value else {
                Issue.record("the request did not end")
                continue
            }
            #expect(error.code == .cancelled)
        }
        #expect(try count() == 0)
        let (first, second) = (subscribe("shared", 101), subscribe("shared", 102, isNew: false))
        runtime.settle()
        second.cancel()
        runtime.settle()
        #expect(try first.value == nil && second.value != nil && count() == 1)
        first.cancel()
        runtime.settle()
        #expect(try first.value != nil && count() == 0)
    }
}
