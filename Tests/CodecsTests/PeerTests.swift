import Codecs
import Foundation
import Testing

/// The same schema in Google's implementation: each side reads what the other writes, in both formats.
@Suite(.enabled(if: PythonPeer.isAvailable, "needs protoc, and protobuf for Python"))
struct PeerTests {
    private func exchange<M: WireMessage & Equatable>(_ messages: [M], proto: String, type: String) throws {
        let encoded = try messages.map { (protobuf: try ProtobufCodec().encode($0), json: try JSONCodec().encode($0)) }
        let answers = try PythonPeer.answers(proto: proto, type: type, messages: encoded)
        for (message, answer) in zip(messages, answers) {
            #expect(try ProtobufCodec().decode(M.self, from: answer.protobuf) == message)
            #expect(try JSONCodec().decode(M.self, from: answer.json) == message)
            #expect(try ProtobufCodec().decode(M.self, from: answer.fromJSON) == message)
        }
    }

    @Test("chat messages by Protos/chat.proto")
    func chat() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let proto = try String(contentsOf: root.appending(path: "Protos/chat.proto"), encoding: .utf8)
        var random = SeededGenerator(state: 7)
        try exchange((0..<200).map { _ in random.chatMessage() }, proto: proto, type: "ChatMessage")
    }

    @Test("every type of field")
    func everyType() throws {
        var random = SeededGenerator(state: 8)
        try exchange((0..<100).map { _ in random.allTypes(depth: 1) }, proto: Self.allTypes, type: "AllTypes")
    }

    private static let allTypes = """
        syntax = "proto3";
        enum Colour { COLOUR_RED = 0; COLOUR_GREEN = 1; COLOUR_BLUE = -5; }
        message Inner { int32 number = 1; string snake_case = 2; }
        message AllTypes {
          bool bool = 1; int32 int32 = 2; int64 int64 = 3; uint32 uint32 = 4; uint64 uint64 = 5;
          sint32 sint32 = 6; sint64 sint64 = 7; fixed32 fixed32 = 8; sfixed64 sfixed64 = 9;
          float float = 10; double double = 11; string string = 12; bytes bytes = 13; Colour colour = 14;
          Inner inner = 15; optional int32 maybe_int = 16; optional string maybe_string = 17;
          optional Colour maybe_colour = 18; repeated int32 ints = 19; repeated sint64 sints = 20;
          repeated fixed64 fixeds = 21; repeated float floats = 22; repeated double doubles = 23;
          repeated bool bools = 24; repeated Colour colours = 25; repeated string strings = 26;
          repeated bytes blobs = 27; repeated Inner inners = 28; map<string, int64> by_name = 29;
          map<int32, string> by_number = 30; map<uint64, Inner> by_key = 31; repeated AllTypes children = 2000;
        }
        """
}
