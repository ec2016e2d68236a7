import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

/// Tests the embedded STOMP broker frame by frame, with clients that write them by hand.
@Suite("The embedded STOMP broker's frames", .timeLimit(.minutes(5)), .ownThread)
struct STOMPBrokerBytesTests {
    /// A frame of the broker.
    private struct Frame {
        var command: String
        var headers: [String: String] = [:]
        var body: String
    }

    /// A client whose frames have no NUL in their bodies.
    private final class Client {
        private let connection: any Connection
        private var unread: [UInt8] = []

        init(_ server: EmbeddedServer) async throws {
            connection = try await server.connectByHand()
            try await send("CONNECT\naccept-version:1.2\nhost:h\n\n")
            let answer = try await next()
            #expect(answer.command == "CONNECTED")
        }

        /// Sends frames, each with its NUL.
        func send(_ frames: String...) async throws {
            for frame in frames { #expect(await connection.send(Payload(Array("\(frame)\0".utf8))) == .written) }
        }

        /// The next frame of the broker.
        func next() async throws -> Frame {
            while true {
                if let end = unread.firstIndex(of: 0) {
                    let text = String(decoding: unread[..<end].drop { $0 == UInt8(ascii: "\n") }, as: UTF8.self)
                    unread.removeFirst(end + 1)
                    let parts = text.split(separator: "\n\n", maxSplits: 1, omittingEmptySubsequences: false)
                    let lines = parts[0].split(separator: "\n")
                    var frame = Frame(command: String(try #require(lines.first)), body: String(parts.last ?? ""))
                    for line in lines.dropFirst() {
                        let colon = try #require(line.firstIndex(of: ":"))
                        frame.headers[String(line[..<colon])] = String(line[line.index(after: colon)...])
                    }
                    return frame
                }
                unread += try #require(try await connection.receive()).bytes
            }
        }

        /// Whether the broker has sent no further frame and has ended the connection.
        func hasEnded() async throws -> Bool {
            while let more = try await connection.receive() { unread += more.bytes }
            return unread.allSatisfy { $0 == UInt8(ascii: "\n") }
        }

        func close() async { await connection.close() }
    }

    private func start() async throws -> EmbeddedServer {
        try await EmbeddedServer.startBroker("stomp://127.0.0.1:0")
    }

    /// Sends messages with these bodies to a queue.
    private func fill(_ server: EmbeddedServer, _ bodies: String...) async throws {
        let client = try await Client(server)
        for body in bodies { try await client.send("SEND\ndestination:/queue/a\nreceipt:\(body)\n\n\(body)") }
        for body in bodies {
            let receipt = try await client.next()
            #expect(receipt.headers["receipt-id"] == body)
        }
        await client.close()
    }

    @Test("A message goes back to the front of its queue after NACK, and is marked as a repetition")
    func givenBack() async throws {
        let server = try await start()
        try await fill(server, "1", "2")
        let client = try await Client(server)
        try await client.send("SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n")
        let (first, second) = (try await client.next(), try await client.next())
        #expect(first.body == "1" && first.headers["redelivered"] == nil && second.body == "2")
        try await client.send("NACK\nid:\(try #require(first.headers["ack"]))\nreceipt:n\n\n")
        let again = try await client.next()
        #expect(again.body == "1" && again.headers["redelivered"] == "true")
        #expect(again.headers["ack"] != first.headers["ack"])
        let receipt = try await client.next()
        #expect(receipt.headers["receipt-id"] == "n")
        try await client.send("ACK\nid:\(try #require(again.headers["ack"]))\n\n")
        try await client.send("NACK\nid:\(try #require(second.headers["ack"]))\nrequeue:false\nreceipt:d\n\n")
        let done = try await client.next()
        #expect(done.headers["receipt-id"] == "d")
        let statistics = await server.brokerStatistics()
        #expect(statistics?.queuedBytes == 0 && statistics?.dropped == 1)
        await client.close()
        await server.stop()
    }

    @Test(
        "In the mode client, ACK and NACK count for the earlier messages, and otherwise for one alone",
        arguments: [
            ("client", "ACK", 0), ("client", "NACK", 3), ("client-individual", "ACK", 2),
            ("client-individual", "NACK", 3),
        ]
    )
    func cumulative(mode: String, command: String, left: Int) async throws {
        let server = try await start()
        try await fill(server, "1", "2", "3")
        let client = try await Client(server)
        try await client.send("SUBSCRIBE\nid:0\ndestination:/queue/a\nack:\(mode)\n\n")
        var last: Frame?
        for _ in 1...3 { last = try await client.next() }
        try await client.send("UNSUBSCRIBE\nid:0\nreceipt:u\n\n")
        let ended = try await client.next()
        #expect(ended.headers["receipt-id"] == "u")
        try await client.send("\(command)\nid:\(try #require(last?.headers["ack"]))\nreceipt:x\n\n")
        let receipt = try await client.next()
        #expect(receipt.headers["receipt-id"] == "x")
        await client.close()
        let other = try await Client(server)
        try await other.send("SUBSCRIBE\nid:0\ndestination:/queue/a\nreceipt:s\n\n")
        let subscribed = try await other.next()
        #expect(subscribed.command == "RECEIPT")
        try await other.send("SEND\ndestination:/queue/a\n\nend")
        var bodies: [String] = []
        while bodies.last != "end" { bodies.append(try await other.next().body) }
        #expect(bodies.dropLast().sorted() == (1...3).prefix(left).map { "\($0)" }, "\(bodies)")
        await other.close()
        await server.stop()
    }

    @Test("A subscriber gets the headers of the sender, its subscription, and each message once for each subscription")
    func headers() async throws {
        let server = try await start()
        let client = try await Client(server)
        try await client.send(
            "SUBSCRIBE\nid:a\ndestination:/topic/x.*\n\n",
            "SUBSCRIBE\nid:b\ndestination:/topic/x.1\nack:client\n\n"
        )
        try await client.send(
            "SEND\ndestination:/topic/x.1\nprice:3\\c50\nprice:4\ncontent-type:text/plain\nsubscription:forged\nack:forged\n"
                + "message-id:forged\nreceipt:r\n\nhello"
        )
        var frames: [Frame] = []
        for _ in 1...3 { frames.append(try await client.next()) }
        let messages = frames.filter { $0.command == "MESSAGE" }.sorted {
            $0.headers["subscription"] ?? "" < $1.headers["subscription"] ?? ""
        }
        #expect(messages.map { $0.headers["subscription"] } == ["a", "b"])
        for message in messages {
            #expect(message.headers["destination"] == "/topic/x.1" && message.headers["content-type"] == "text/plain")
            #expect(message.headers["message-id"] != nil && message.headers["message-id"] != "forged")
            #expect(message.headers["content-length"] == "5" && message.body == "hello")
        }
        #expect(messages.map { $0.headers["ack"] == nil } == [true, false])
        #expect(frames.last?.headers["receipt-id"] == "r")
        await client.close()
        await server.stop()
    }

    @Test(
        "A frame that breaks a rule is answered with ERROR and its receipt, and the connection ends",
        arguments: [
            ("BEGIN\ntransaction:t\nreceipt:7\n\n", "transactions", "7"),
            ("SEND\nreceipt:7\n\nx", "no destination", "7"),
            ("SEND\ndestination:a\ncontent-length:2\n\nx", "content-length 2", nil),
            ("SEND\ndestination:a\ncontent-length:x\n\nx", "a number of bytes", nil),
            ("ACK\nreceipt:7\n\n", "no id", "7"), ("UNSUBSCRIBE\nid:9\n\n", "no subscription", nil),
            ("RECEIPT\nreceipt-id:1\n\n", "RECEIPT", nil), ("SEND\nbad\\escape:x\n\n", "the escape", nil),
        ] as [(String, String, String?)]
    )
    func refused(frame: String, words: String, receipt: String?) async throws {
        let server = try await start()
        let client = try await Client(server)
        // The second frame completes a body that is longer than its NUL says. It leaves with the first one, after which the
        // broker closes.
        try await client.send("\(frame)\0SEND\ndestination:b\n\nnever")
        let error = try await client.next()
        #expect(error.command == "ERROR" && error.headers["receipt-id"] == receipt)
        #expect(error.headers["message"]?.contains(words) == true, "\(error)")
        #expect(try await client.hasEnded())
        await client.close()
        await server.stop()
    }

    @Test(
        "A client that sends a head without end, or a body that is too long, is refused within the limits",
        arguments: [
            "SEND\n" + String(repeating: "a:b\n", count: 5000), "SEND\nx:" + String(repeating: "y", count: 70_000),
        ]
    )
    func endless(bytes: String) async throws {
        let server = try await start()
        let client = try await Client(server)
        try await client.send(bytes)
        let error = try await client.next()
        #expect(error.command == "ERROR")
        #expect(try await client.hasEnded())
        await client.close()
        await server.stop()
    }
}
