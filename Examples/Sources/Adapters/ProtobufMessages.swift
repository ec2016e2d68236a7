import SwiftProtobuf
import TransportAPI

extension Payload {
    /// A message that SwiftProtobuf has generated, in the binary format.
    public init(protobuf message: some SwiftProtobuf.Message) throws {
        self.init(try message.serializedBytes())
    }

    /// Reads a message that SwiftProtobuf has generated.
    public func protobuf<Message: SwiftProtobuf.Message>(as _: Message.Type = Message.self) throws -> Message {
        try Message(serializedBytes: bytes)
    }
}

extension Supervisor {
    /// Sends a message that SwiftProtobuf has generated. Throws if it cannot be encoded.
    public func send(protobuf message: some SwiftProtobuf.Message) async throws -> SendOutcome {
        await send(try Payload(protobuf: message))
    }
}
