import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("A server over HTTP", .timeLimit(.minutes(5)), .ownThread)
struct HTTPServerTests {
    @Test("Messages go both ways over each kind of delivery", arguments: SessionRequest.Delivery.allCases)
    func chat(delivery: SessionRequest.Delivery) async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        try await client.post("one", "zwölf")
        #expect(try await app.receiveText() == "one")
        #expect(try await app.receiveText() == "zwölf")
        if delivery == .events {
            let events = try await client.events()
            for text in ["a", "zwei\nZeilen\n", ""] {
                #expect(await app.send(Payload(text: text)).isSuccess)
                #expect(try await events.text() == text)
            }
            #expect(await app.send(Payload([0, 0xff])).isSuccess)
            #expect(try await events.next() == .bytes([0, 0, 0, 2, 0, 0xff]))
        } else {
            for text in ["a", "zwei", ""] {
                #expect(await app.send(Payload(text: text)).isSuccess)
                let frame = RawSession.frame(Array(text.utf8))
                #expect(try await client.poll(frame.count, delivery) == frame)
            }
        }
        try await client.post("three")
        #expect(try await app.receiveText() == "three")
        await host.listener.close()
    }

    @Test("A handler answers sessions as it answers other clients")
    func echo() async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/chat", registry: HTTPHost.registry)
        let client = try await RawSession(port: try #require(server.endpoint.port), path: "/chat")
        let events = try await client.events()
        for index in 0..<100 {
            try await client.post("\(index)")
            #expect(try await events.text() == "\(index)")
        }
        try await client.close()
        events.connection.hangUp()
        await server.stop()
    }

    @Test(
        "A client that resumes at any offset gets each byte exactly once",
        arguments: SessionRequest.Delivery.allCases
    )
    func resume(delivery: SessionRequest.Delivery) async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        let messages: [[UInt8]] = [Array("first".utf8), [], [1, 0xff, 3], Array("größe\n".utf8), Array("last".utf8)]
        for message in messages {
            let isText = String(validating: message, as: UTF8.self) != nil
            #expect(await app.send(Payload(message, kind: isText ? .text : .binary)).isSuccess)
        }
        let stream = messages.flatMap { RawSession.frame($0) }
        for offset in 0...stream.count {
            // The connection of the previous request is lost in the middle of its answer.
            if delivery == .events {
                let events =
                    offset % 2 == 0
                    ? try await client.events(from: offset)
                    : try await client.events(from: 0, lastEvent: offset)
                if offset < stream.count {
                    #expect(try await events.bytes(upTo: stream.count) == Array(stream[offset...]))
                }
                events.connection.hangUp()
            } else {
                let response = try await host.ask("GET", client.receiving(.poll, from: offset))
                #expect(response.body == Array(stream[offset...]))
                #expect(response.status == (offset < stream.count ? 200 : 204))
            }
        }
        for wrong in [0, stream.count - 1, stream.count + 1] {
            let response = try await host.ask("GET", client.receiving(delivery, from: wrong))
            #expect(response.status == 409)
        }
        await host.listener.close()
    }

    @Test("A request whose answer was lost is repeated, alone or with more bytes, and nothing comes twice")
    func repeatedPost() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        let stream = ["one", "two", "three"].flatMap { RawSession.frame(Array($0.utf8)) }
        for end in 1...stream.count {
            let lost = try RawHTTPConnection(port: host.port)
            let first = RawHTTPConnection.request("POST", client.sending(at: 0), [], Array(stream[..<end]))
            try await lost.send(first)
            if end % 2 == 0 { lost.hangUp() } else { _ = try await lost.response() }
        }
        let response = try await host.ask("POST", client.sending(at: 0), [], stream)
        #expect(response.status == 204)
        for text in ["one", "two", "three"] { #expect(try await app.receiveText() == text) }
        client.sent = stream.count
        #expect(try await host.ask("POST", client.sending(at: stream.count + 1), [], [0]).status == 409)
        #expect(try await host.ask("POST", client.sending(at: stream.count, received: 1), [], [0]).status == 409)
        try await client.post("four")
        #expect(try await app.receiveText() == "four")
        await host.listener.close()
    }

    @Test("A later request that receives takes over from the one before")
    func takeover() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        let first = try await client.events()
        let second = try await client.events()
        #expect(try await first.next() == nil)
        #expect(await app.send(Payload(text: "to the second")).isSuccess)
        #expect(try await second.text() == "to the second")
        let poll = try RawHTTPConnection(port: host.port)
        try await poll.send(RawHTTPConnection.request("GET", client.receiving(.longPoll, from: second.offset)))
        #expect(try await second.next() == nil)
        let third = try await client.events(from: second.offset)
        #expect(try await poll.response().status == 409)
        #expect(await app.send(Payload(text: "to the third")).isSuccess)
        #expect(try await third.text() == "to the third")
        // The first connection serves further requests.
        #expect(try await first.connection.ask("GET", client.receiving(.poll, from: third.offset)).status == 204)
        await host.listener.close()
    }

    @Test("A long poll without bytes is answered after its time")
    func hold() async throws {
        let host = try await HTTPHost("hold=20ms")
        let (client, app) = try await host.open()
        for _ in 0..<3 { #expect(try await client.lane.ask("GET", client.receiving(.longPoll)).status == 204) }
        #expect(await app.send(Payload(text: "now")).isSuccess)
        #expect(try await client.poll(7) == RawSession.frame(Array("now".utf8)))
        await host.listener.close()
    }

    @Test("Requests that are sent at once over one connection are answered in their order")
    func pipelined() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        let frames = ["a", "b", "c"].map { RawSession.frame(Array($0.utf8)) }
        var all: [UInt8] = []
        for (index, frame) in frames.enumerated() {
            all += RawHTTPConnection.request("POST", client.sending(at: index * 5), [], frame)
        }
        try await client.lane.send(all + RawHTTPConnection.request("GET", client.receiving(.poll)))
        for _ in frames { #expect(try await client.lane.response().status == 204) }
        #expect(try await client.lane.response().status == 204)
        for text in ["a", "b", "c"] { #expect(try await app.receiveText() == text) }
        await host.listener.close()
    }

    // MARK: Backpressure

    @Test("No more than the window waits for a client that acknowledges nothing")
    func window() async throws {
        let host = try await HTTPHost("window=1KiB&write-buffer=1KiB")
        let (client, app) = try await host.open()
        let message = longBytes(500)
        let sending = Task {
            for _ in 0..<20 { guard await app.send(Payload(message)).isSuccess else { return false } }
            return true
        }
        let whole = Array(repeating: RawSession.frame(message), count: 20).flatMap(\.self)
        // The same offset again acknowledges nothing.
        for _ in 0..<3 {
            let response = try await host.ask("GET", client.receiving(.longPoll, from: 0))
            #expect(response.body.count <= 1024 && whole.starts(with: response.body))
        }
        let events = try await client.events(from: 0)
        #expect(try await events.bytes(upTo: 1024) == Array(whole[..<1024]))
        client.received = 1024
        try await client.post(bytes: [])
        #expect(try await events.bytes(upTo: 2048) == Array(whole[1024..<2048]))
        client.received = 2048
        #expect(try await client.poll(whole.count - 2048) == Array(whole[2048...]))
        #expect(await sending.value)
        await host.listener.close()
    }

    @Test(
        "A client that acknowledges nothing while output waits for it is ended as one that reads nothing over TCP",
        arguments: SessionRequest.Delivery.allCases
    )
    func stalled(delivery: SessionRequest.Delivery) async throws {
        let host = try await HTTPHost("window=1KiB&write-buffer=1KiB&stall-timeout=300ms&hold=10ms")
        let (client, app) = try await host.open()
        let sending = Task {
            while true {
                let outcome = await app.send(Payload(longBytes(500)))
                guard outcome.isSuccess else { return outcome }
            }
        }
        // It is there all the time, and what it gets is always the same.
        let events = delivery == .events ? try await client.events(from: 0) : nil
        let request = events == nil ? client.receiving(delivery, from: 0) : client.receiving(.poll, from: 2000)
        while true {
            let response = try await host.ask("GET", request)
            if response.status == 404 { break }
            #expect((events == nil ? [200, 204] : [409]).contains(response.status))
            #expect(events != nil || response.body.count <= 1024)
        }
        #expect(await app.closed().error?.code == .timedOut)
        guard case .rejected(let error) = await sending.value else {
            Issue.record("a message was sent that nobody takes")
            return
        }
        #expect(error.code == .timedOut)
        if let events { #expect(try await events.bytes(upTo: 1024).count == 1024) }
        await host.listener.close()
    }

    @Test("A client that polls has its interval in addition, because it acknowledges only then")
    func stalledInterval() async throws {
        let host = try await HTTPHost("window=1KiB&write-buffer=1KiB&stall-timeout=20ms")
        let (client, app) = try await host.open("im-interval=60000&")
        let sending = Task { await app.send(Payload(longBytes(5000))).isSuccess }
        let end = ContinuousClock.now + .milliseconds(200)
        while ContinuousClock.now < end {
            #expect([200, 204].contains(try await host.ask("GET", client.receiving(.poll, from: 0)).status))
        }
        #expect(try await client.poll(5004) == RawSession.frame(longBytes(5000)))
        #expect(await sending.value)
        await host.listener.close()
    }

    @Test("A request whose body trickles keeps no session alive")
    func trickle() async throws {
        let host = try await HTTPHost("session-timeout=200ms")
        let (client, app) = try await host.open()
        let connection = try RawHTTPConnection(port: host.port)
        let head = "POST \(client.sending(at: 0)) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"
        try await connection.send(Array(head.utf8))
        let hasEnded = Locked(false)
        let trickling = Task {
            while !hasEnded.withLock({ $0 }) { try await connection.send([0]) }
        }
        #expect(await app.closed().error?.code == .keepaliveTimeout)
        hasEnded.withLock { $0 = true }
        try await trickling.value
        connection.hangUp()
        await host.listener.close()
    }

    @Test("The answer to a request that sends waits while the app reads nothing")
    func unread() async throws {
        let host = try await HTTPHost("window=1KiB&inbox=1")
        let (client, app) = try await host.open()
        // The inbox and the input of the driver take some. The number of requests that are answered does not matter.
        let answered = Locked(0)
        let count = 200
        let sending = Task {
            for _ in 0..<count {
                try await client.post(bytes: RawSession.frame(longBytes(1000)))
                answered.withLock { $0 += 1 }
            }
        }
        // Other requests of the session are served meanwhile.
        for _ in 0..<20 { #expect(try await host.ask("GET", client.receiving(.poll)).status == 204) }
        #expect(answered.withLock { $0 } < count)
        for _ in 0..<count { #expect(try await app.receive()?.bytes == longBytes(1000)) }
        try await sending.value
        await host.listener.close()
    }

    @Test("What the app does not read takes little more memory than two windows, one of them in a request that waits")
    func unreadMemory() async throws {
        let host = try await HTTPHost("window=1MiB&inbox=1&max-buffered=2560KiB")
        let (client, app) = try await host.open()
        let (count, message) = (4, longBytes(1000))
        let batch = Array(repeatElement(RawSession.frame(message), count: (1 << 20) / 1004).joined())
        let sending = Task { for _ in 0..<count { try await client.post(bytes: batch) } }
        // The first request is answered, and the third one has time to arrive.
        for _ in 0..<100 { #expect(try await host.ask("GET", client.receiving(.poll)).status == 204) }
        for _ in 0..<count * batch.count / 1004 { #expect(try await app.receive()?.bytes == message) }
        try await sending.value
        await host.listener.close()
    }

    @Test("Requests that repeat and extend one that waits bring nothing twice")
    func repeatedWhileUnread() async throws {
        let host = try await HTTPHost("window=1KiB&inbox=1")
        let (client, app) = try await host.open()
        let (count, size) = (100, 1004)
        let whole = (0..<count).flatMap { RawSession.frame(Array(repeating: UInt8($0), count: size - 4)) }
        let answered = Locked(0)
        let sending = Task {
            for index in 0..<count {
                let body = Array(whole[index * size..<(index + 1) * size])
                // A later request may have replaced this one before its bytes were taken.
                while true {
                    let response = try await client.lane.ask("POST", client.sending(at: index * size), [], body)
                    if response.status == 204 { break }
                    try #require(response.status == 409)
                }
                answered.withLock { $0 += 1 }
            }
        }
        var repeated: [RawHTTPConnection] = []
        for _ in 0..<10 {
            #expect(try await host.ask("GET", client.receiving(.poll)).status == 204)
            let start = answered.withLock { $0 } * size
            let connection = try RawHTTPConnection(port: host.port)
            let body = Array(whole[start..<min(start + 1024, whole.count)])
            try await connection.send(RawHTTPConnection.request("POST", client.sending(at: start), [], body))
            repeated.append(connection)
        }
        for index in 0..<count {
            #expect(try await app.receive()?.bytes == Array(repeating: UInt8(index), count: size - 4))
        }
        try await sending.value
        for connection in repeated { #expect([204, 409].contains(try await connection.response().status)) }
        await host.listener.close()
    }

    @Test("A body that is larger than the window is refused before it arrives")
    func largeBody() async throws {
        let host = try await HTTPHost("window=1KiB")
        let (client, _) = try await host.open()
        let connection = try RawHTTPConnection(port: host.port)
        let head = "POST \(client.sending(at: 0)) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1025\r\n\r\n"
        try await connection.send(Array(head.utf8))
        #expect(try await connection.response().status == 413)
        try await client.post("still there")
        await host.listener.close()
    }

    // MARK: The end

    @Test("A close frame of the client ends the session, and the app learns the reason")
    func clientCloses() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        let events = try await client.events()
        try await client.close()
        #expect(await app.closed().initiator == .peer)
        #expect(try await events.piece().first == 0x80)
        #expect(try await events.next() == .end)
        #expect(try await events.next() == nil)
        await host.listener.close()
    }

    @Test("An end without a close frame is a lost connection")
    func clientVanishes() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        try await client.post(bytes: RawSession.frame([1, 2, 3]), isLast: true)
        #expect(try await app.receive()?.bytes == [1, 2, 3])
        #expect(await app.closed().error?.code == .connectionLost)
        await host.listener.close()
    }

    @Test("A server that stops closes its sessions, and the requests that wait are answered")
    func stop() async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0", registry: HTTPHost.registry)
        let port = try #require(server.endpoint.port)
        let (first, second) = (try await RawSession(port: port), try await RawSession(port: port))
        let events = try await first.events()
        let poll = try RawHTTPConnection(port: port)
        try await poll.send(RawHTTPConnection.request("GET", second.receiving(.longPoll)))
        let stopping = Task { await server.stop() }
        let close = try await events.piece()
        let answer = try await poll.response()
        #expect(close == answer.body && close.first == 0x80)
        // Nobody can open a session any more, and those that are open can end.
        #expect(try await poll.ask("POST", "/?im-open=1").status == 503)
        for session in [first, second] {
            session.received = close.count
            try await session.close()
        }
        #expect(try await events.next() == .end)
        for connection in [poll, events.connection] { connection.hangUp() }
        await stopping.value
        #expect(throws: (any Error).self) { try RawHTTPConnection(port: port) }
    }

    @Test("What was written before the end is still fetched, and then the stream is gone")
    func fetchedLater() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        #expect(await app.send(Payload(text: "last")).isSuccess)
        try await client.close()
        #expect(await app.closed().initiator == .peer)
        let bytes = try await client.poll(9)
        #expect(bytes.starts(with: RawSession.frame(Array("last".utf8))) && bytes[8] == 0x80)
        let connection = try RawHTTPConnection(port: host.port)
        #expect(try await connection.ask("GET", client.receiving(.longPoll)).status == 410)
        #expect(try await connection.ask("GET", client.receiving(.longPoll)).status == 404)
        await host.listener.close()
    }

    @Test("A session without requests ends, and one whose events are read does not")
    func timeout() async throws {
        let host = try await HTTPHost("session-timeout=1s&hold=400ms")
        let (reading, readingApp) = try await host.open()
        let events = try await reading.events()
        let (silent, silentApp) = try await host.open()
        for _ in 0..<3 { #expect(try await silent.lane.ask("GET", silent.receiving(.longPoll)).status == 204) }
        #expect(await silentApp.closed().error?.code == .keepaliveTimeout)
        #expect(try await host.ask("GET", silent.receiving(.poll)).status == 404)
        #expect(await readingApp.send(Payload(text: "still here")).isSuccess)
        #expect(try await events.text() == "still here")
        await host.listener.close()
    }

    @Test("A session whose poll is held lives on, even if polls are held for longer than sessions without requests")
    func heldPoll() async throws {
        let host = try await HTTPHost("session-timeout=1s&hold=2s")
        let (client, app) = try await host.open()
        #expect(try await host.ask("GET", client.receiving(.longPoll)).status == 204)
        #expect(await app.closed().error?.code == .keepaliveTimeout)
        await host.listener.close()
    }

    @Test("The time of a session depends on the interval at which its client polls")
    func interval() {
        let limits = HTTPSessionLimits()
        #expect(limits.timeout(interval: .zero) == .seconds(60))
        #expect(limits.timeout(interval: .seconds(10)) == .seconds(60))
        #expect(limits.timeout(interval: .seconds(60)) == .seconds(150))
        #expect(limits.timeout(interval: .seconds(600)) == .seconds(600))
    }

    @Test("A server that was closed frees its port when its last session has ended")
    func port() async throws {
        let host = try await HTTPHost()
        let (client, app) = try await host.open()
        await host.listener.close()
        // The session needs new connections.
        try await client.post("after the close")
        #expect(try await app.receiveText() == "after the close")
        #expect(try await host.ask("POST", "/?im-open=1").status == 503)
        try await client.post(bytes: [], isLast: true)
        _ = await app.closed()
        _ = await app.close()
        let again = try await HTTPHost.registry.listen("http://127.0.0.1:\(host.port)")
        await again.close()
    }
}
