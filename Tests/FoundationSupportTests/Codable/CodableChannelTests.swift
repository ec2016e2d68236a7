import Foundation
import FoundationSupport
import TestSupport
import Testing

private struct Order: Codable, Sendable, Hashable {
    var dish: String
    var price = 1.5
}

private struct Answer: Codable, Sendable, Hashable {
    var isReady: Bool
}

/// A message with a schema, which is Codable too.
private struct Both: WireMessage, Codable, Hashable {
    var text = ""
    init() {}
    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(1, "wireText", &text)
    }
}

@Suite("Channels of Codable types", .timeLimit(.minutes(5)), .ownThread)
struct CodableChannelTests {
    /// Runs a session server and a supervisor that is connected to it.
    private func connected(
        _ onSession: @escaping @Sendable (Session) -> Void,
        _ body: (Supervisor) async throws -> Void
    ) async throws {
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0")
        let server = SessionServer(onSession: onSession)
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = TransportConfiguration(endpoints: [listener.endpoint])
        configuration.supervisor.delivery.mode = .session
        let supervisor = try Supervisor(configuration)
        supervisor.connect()
        try await body(supervisor)
        await supervisor.close()
        await listener.close()
        try await serving.value
        await server.close()
    }

    @Test("Messages go both ways between a supervisor and a session")
    func echo() async throws {
        try await connected { session in
            let orders = session.channel(of: Order.self)
            let received = orders.messages
            Task {
                for await var order in received {
                    order.dish += ", ready"
                    try await orders.submit(order)
                }
            }
        } _: { supervisor in
            let orders: CodableChannel<Order> = supervisor.channel()
            var answers = orders.messages.makeAsyncIterator()
            #expect(await orders.send(Order(dish: "soup")) == .acknowledged)
            #expect(await answers.next() == Order(dish: "soup, ready"))
            _ = try await orders.submit(Order(dish: "salad"))
            #expect(await answers.next() == Order(dish: "salad, ready"))
        }
    }

    @Test("A message that cannot be encoded is rejected with the field, and nothing is sent")
    func rejected() async throws {
        let supervisor = try Supervisor("ws://127.0.0.1:1")
        let orders = supervisor.channel(of: Order.self)
        let outcome = await orders.send(Order(dish: "soup", price: .nan))
        guard case .rejected(let error) = outcome else { throw CancellationError() }
        #expect(error.code == .invalidConfiguration && "\(error)".contains("field price"), "\(error)")
        await #expect(throws: TransportError.self) { _ = try await orders.submit(Order(dish: "soup", price: .nan)) }
        await #expect(throws: RequestError.notSent(error)) {
            _ = try await orders.request(Order(dish: "s", price: .nan), timeout: .seconds(60), answeredBy: Answer.self)
        }
        await supervisor.close()
    }

    @Test(
        "A message that cannot be decoded is a result of the channel and an event of the session, without its content"
    )
    func undecodable() async throws {
        let (events, event) = AsyncStream.makeStream(of: String.self)
        try await connected { session in
            let (messages, sessionEvents) = (session.channel(of: Order.self).messages, session.events)
            Task {
                for await case .undecodable(_, let sentence) in sessionEvents { event.yield(sentence) }
            }
            Task {
                for await message in messages {
                    _ = await session.send(Payload(text: #"["topsecret"]"#))
                    _ = await session.send(Payload(text: #"{"dish": "\#(message.dish)", "price": 2}"#))
                }
            }
        } _: { supervisor in
            let orders = supervisor.channel(of: Order.self)
            var results = orders.results.makeAsyncIterator()
            #expect(await supervisor.send(Payload(text: #"{"dish": 4711}"#)) == .acknowledged)
            #expect(await orders.send(Order(dish: "soup")) == .acknowledged)
            for await sentence in events {
                #expect(
                    sentence
                        == "expected JSON: expected String, found a number. (wrongType, field dish)"
                )
                break
            }
            guard case .failure(let failure)? = await results.next() else { throw CancellationError() }
            #expect("\(failure)" == "expected JSON: expected an object, found an array. (wrongType)")
            #expect(failure.error.code == .wrongType && failure.payload.string == #"["topsecret"]"#)
            #expect(try await results.next()?.get() == Order(dish: "soup", price: 2))
        }
    }

    @Test("Requests are answered in both directions by a type of their own")
    func requests() async throws {
        let (answers, answer) = AsyncStream.makeStream(of: Result<Answer, RequestError>.self)
        try await connected { session in
            let orders = session.channel(of: Order.self)
            orders.onRequest { (order: Order) in
                guard order.dish != "fish" else { throw RequestFailure(code: 404, reason: "no fish") }
                if order.dish == "ask me" {
                    Task {
                        do throws(RequestError) {
                            answer.yield(.success(try await orders.request(order, timeout: .seconds(60))))
                        } catch {
                            answer.yield(.failure(error))
                        }
                    }
                }
                return Answer(isReady: order.dish == "soup")
            }
        } _: { supervisor in
            let orders = supervisor.channel(of: Order.self)
            orders.onRequest { (order: Order) in Answer(isReady: order.dish == "ask me") }
            #expect(
                try await orders.request(Order(dish: "soup"), timeout: .seconds(60), answeredBy: Answer.self).isReady
            )
            await #expect(throws: RequestError.refused(code: 404, reason: "no fish")) {
                let _: Answer = try await orders.request(Order(dish: "fish"), timeout: .seconds(60))
            }
            await #expect(throws: RequestError.refused(code: 3, reason: RequestFailure.unreadable.reason)) {
                _ = try await supervisor.request(Payload(text: "[]"), timeout: .seconds(60))
            }
            let wrong = await #expect(throws: RequestError.self) {
                _ = try await orders.request(Order(dish: "soup"), timeout: .seconds(60), answeredBy: Order.self)
            }
            guard case .unreadable(let sentence) = wrong else { throw CancellationError() }
            #expect(sentence.contains("expected a value for the field, found none. (missingField, field dish)"))
            let asked: Answer = try await orders.request(Order(dish: "ask me"), timeout: .seconds(60))
            #expect(!asked.isReady)
            for await answer in answers {
                #expect(try answer.get() == Answer(isReady: true))
                break
            }
        }
    }

    @Test("The codec chooses the format of a type that is Codable and a wire message")
    func chosen() async throws {
        let supervisor = try Supervisor("ws://127.0.0.1:1")
        var message = Both()
        message.text = "hello"
        let json = supervisor.channel(of: Both.self, codec: CodableJSON())
        let wire = supervisor.channel(of: Both.self, codec: WireFormat.json.codec())
        #expect(try json.codec.encode(message).string == #"{"text":"hello"}"#)
        #expect(try wire.codec.encode(message).string == #"{"wireText":"hello"}"#)
        await supervisor.close()
    }

    @Test("A bare connection carries a Codable message, up to its own size limit")
    func bare() async throws {
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0?max-message=100")
        let url = try #require(URL(string: "\(listener.endpoint)"))
        let transport = try TransportRegistry.standard.transport(for: Endpoint(url))
        async let accepted = listener.accept()
        let client = try await transport.connect(timeout: .seconds(60))
        let server = try #require(try await accepted)
        let codec = CodableJSON<Order>()
        #expect(await client.send(try codec.encode(Order(dish: "soup"))).isSuccess)
        let payload = try #require(try await server.receive())
        #expect(try payload.kind == .text && codec.decode(payload) == Order(dish: "soup"))
        let long = Order(dish: String(repeating: "x", count: 100))
        guard case .rejected(let error) = await server.send(try codec.encode(long)) else { throw CancellationError() }
        #expect(error.code == .messageTooLarge)
        await client.close()
        await listener.close()
    }
}
