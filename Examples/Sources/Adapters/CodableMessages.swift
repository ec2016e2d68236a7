import Foundation
import TransportAPI

extension Payload {
    /// A message of an existing `Codable` type, as JSON.
    public init(json value: some Encodable, encoder: JSONEncoder = JSONEncoder()) throws {
        self.init(Array(try encoder.encode(value)), kind: .text)
    }

    /// Reads a message that is JSON.
    public func json<Value: Decodable>(
        as _: Value.Type = Value.self,
        decoder: JSONDecoder = JSONDecoder()
    ) throws -> Value {
        try decoder.decode(Value.self, from: Data(bytes))
    }
}

extension Supervisor {
    /// Sends a message of an existing `Codable` type. Throws if it cannot be encoded.
    public func send(json value: some Encodable) async throws -> SendOutcome {
        await send(try Payload(json: value))
    }

    /// The received messages of a type. Others are passed to `onFailure` and left out.
    public func messages<Value: Decodable & Sendable>(
        json _: Value.Type,
        onFailure: @escaping @Sendable (Payload, any Error) -> Void = { _, _ in }
    ) -> some AsyncSequence<Value, Never> & Sendable {
        messages.compactMap { payload in
            do {
                return try payload.json(as: Value.self)
            } catch {
                onFailure(payload, error)
                return nil
            }
        }
    }
}
