import TransportAPI

@testable import Protocols

/// Feeds requests to the core of a server, in any slices, and answers them in between. Then everything that both cores have
/// done is compared.
func fuzzHTTPServer(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = HTTPServerConfiguration()
    configuration.maximumHeaderBytes = 600
    configuration.maximumHeaderCount = 20
    configuration.maximumBody = input.choice(of: [1000, 10])
    let hasWebSocket = input.flag()
    let slicing = input.choice()
    let answers = input.choice()
    let waits = (0..<Int(input.choice() & 7)).map { _ in input.choice() }
    var whole = try HTTPRun(configuration, hasWebSocket, answers)
    var sliced = try HTTPRun(configuration, hasWebSocket, answers)
    var cuts = Slicing(max(slicing, 1))
    var rest = input.rest
    for wait in waits + [255] {
        let piece = wait == 255 ? rest : rest.prefix(Int(wait))
        rest = rest.dropFirst(piece.count)
        try whole.feed(Array(piece))
        for slice in cuts.slices(of: piece) { try sliced.feed(Array(slice)) }
        try whole.wait(.seconds(Int(wait) % 12))
        try sliced.wait(.seconds(Int(wait) % 12))
    }
    try ensure(whole.seen == sliced.seen, "sliced \(slicing): \(sliced.seen) instead of \(whole.seen)")
    // How a foreign peer is described, and answered, depends on how many of its bytes have arrived.
    if whole.run.failure?.reason.contains(" speak") == true { return }
    try ensure(whole.run.failure == sliced.run.failure, "\(String(describing: sliced.run.failure))")
    try ensure(whole.run.takeOutput() == sliced.run.takeOutput(), "sliced \(slicing): another output")
}

/// A server's core that answers each request at once, in one of several ways.
private struct HTTPRun: ~Copyable {
    var run: CoreRun<HTTPServerCore>
    private var answers: UInt8
    private let configuration: HTTPServerConfiguration
    /// The requests and the ends that were reported.
    private(set) var seen: [String] = []

    init(_ configuration: HTTPServerConfiguration, _ hasWebSocket: Bool, _ answers: UInt8) throws {
        var other = WebSocketConfiguration()
        other.maximumHeaderBytes = configuration.maximumHeaderBytes
        other.maximumMessageSize = 1000
        let webSocket = hasWebSocket ? try WebSocketCore(.server, other) : nil
        run = CoreRun(try HTTPServerCore(configuration, webSocket: webSocket))
        (self.configuration, self.answers) = (configuration, answers)
    }

    mutating func feed(_ bytes: [UInt8]) throws {
        guard !run.isOver else { return }
        run.input.append(contentsOf: bytes)
        try drain()
    }

    mutating func wait(_ duration: Duration) throws {
        let end = run.context.now.advanced(by: duration)
        while !run.isOver, let deadline = run.core.deadline, deadline <= end {
            run.context.now = max(run.context.now, deadline)
            run.deadlineReached()
            try drain()
        }
        run.context.now = end
    }

    private mutating func drain() throws {
        while !run.isOver, let event = run.nextEvent() {
            switch event {
            case .signal(let signal):
                if let request = signal.http {
                    try ensure(request.body.count <= configuration.maximumBody, "a body of \(request.body.count) bytes")
                    seen.append("\(request.method) \(request.path) \(request.query) \(request.body)")
                    answer()
                } else if let arriving = signal.arrivingHTTP {
                    // How much of a body comes at a time depends on the slices.
                    try ensure(arriving.count > 0 && arriving.request.body.isEmpty, "a body arrives without a byte")
                } else {
                    try ensure(signal.opensWebSocket && run.core.isWebSocket, "an unknown signal")
                    seen.append("WebSocket")
                }
            case .closed(let reason): seen.append("\(reason)")
            case .message(let payload): seen.append("\(payload.bytes)")
            default: break
            }
        }
        try ensure(run.core.bufferedBytes <= 16 << 10, "\(run.core.bufferedBytes) bytes are buffered")
        guard !run.isOver, !run.core.isWebSocket else { return }
        let limit = configuration.maximumHeaderBytes + 5 << 10
        try ensure(run.input.count <= limit, "\(run.input.count) bytes are left unread")
    }

    private mutating func answer() {
        answers = answers &* 5 &+ 17
        let response = HTTPResponse(answers & 1 == 0 ? 200 : 204, body: [1, 2, 3])
        guard answers & 2 == 0 else { return run.core.answer(response, &run.context) }
        run.core.beginAnswer(response, &run.context)
        [4, 5].withUnsafeBytes { run.core.sendEncoded($0, &run.context) }
        run.core.endAnswer(&run.context)
    }
}

/// Reads a body alone: its parts in any slices, and its limits.
func fuzzHTTPBody(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let slicing = input.choice()
    let framing: HTTPBodyFraming = input.choice(of: [.chunked, .length(Int(input.choice())), .untilEnd, .chunked])
    let most = input.choice(of: [.max, 100])
    func read(_ slicing: Slicing) -> Result<[UInt8], HTTPMessageError> {
        var (slicing, body, isComplete) = (slicing, [UInt8](), false)
        var buffer = ByteBuffer()
        do throws(HTTPMessageError) {
            var reader = try HTTPBodyReader(framing, maximumBody: most, maximumTrailers: 200)
            for slice in slicing.slices(of: input.rest) {
                buffer.append(contentsOf: Array(slice))
                if !isComplete { isComplete = try reader.read(&buffer, into: &body) }
            }
            return .success(
                body + [isComplete ? 1 : 0] + (isComplete ? buffer.bytes(at: 0, count: buffer.count) ?? [] : [])
            )
        } catch {
            return .failure(error)
        }
    }
    let (whole, sliced) = (read(.whole), read(Slicing(max(slicing, 1))))
    try ensure(whole == sliced, "sliced \(slicing): \(sliced) instead of \(whole)")

    // What our server writes in chunks is read as it was.
    var buffer = ByteBuffer()
    var written: [UInt8] = []
    var server = CoreRun(try HTTPServerCore(HTTPServerConfiguration(), webSocket: nil))
    try server.feed(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
    server.core.beginAnswer(HTTPResponse(200), &server.context)
    while !input.rest.isEmpty {
        let record = input.record()
        record.withUnsafeBytes { server.core.sendEncoded($0, &server.context) }
        written += record
    }
    server.core.endAnswer(&server.context)
    buffer.append(contentsOf: server.takeOutput())
    var reader = HTTPResponseReader()
    var read: [UInt8] = []
    while let event = try reader.next(&buffer) { if case .body(let bytes) = event { read += bytes } }
    try ensure(read == written && reader.isReusable && buffer.isEmpty, "\(written) is read as \(read)")
}

/// Reads a response in any slices.
func fuzzHTTPResponse(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let slicing = input.choice()
    let ends = input.flag()
    let whole = try readResponse(input.rest, .whole, ends: ends)
    let sliced = try readResponse(input.rest, Slicing(max(slicing, 1)), ends: ends)
    try ensure(whole == sliced, "sliced \(slicing): \(sliced) instead of \(whole)")
}

/// What was read of a response.
private struct ReadResponse: Equatable {
    var heads: [HTTPHead] = []
    var body: [UInt8] = []
    var isComplete = false
    var isReusable = false
    var left = 0
    var error: HTTPMessageError?
}

private func readResponse(_ bytes: ArraySlice<UInt8>, _ slicing: Slicing, ends: Bool) throws -> ReadResponse {
    var (read, slicing, events) = (ReadResponse(), slicing, [HTTPResponseReader.Event]())
    var reader = HTTPResponseReader(maximumHeaderBytes: 600, maximumHeaderCount: 20)
    var input = ByteBuffer()
    do throws(HTTPMessageError) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            while let event = try reader.next(&input) { events.append(event) }
        }
        if ends, let event = try reader.inputEnded() { events.append(event) }
        (read.isReusable, read.left) = (reader.isReusable, input.count)
    } catch {
        // Bytes of the body that came together with the error are not reported.
        read.error = error
    }
    for event in events {
        try ensure(!read.isComplete, "an event after the end")
        switch event {
        case .head(let head, let status):
            try ensure(read.heads.isEmpty && (200...999).contains(status), "\(status)")
            read.heads.append(head)
        case .body(let bytes):
            try ensure(read.heads.count == 1 && !bytes.isEmpty, "a body without a head, or an empty piece")
            read.body += bytes
        case .end: read.isComplete = true
        }
    }
    if read.error != nil { read.body = [] }
    return read
}

/// Parses a query, writes it, and parses it again. What is removed from it is gone, and the rest is as before.
func fuzzFormQuery(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let prefix = input.choice(of: ["im-", "a", "é"])
    let text = String(decoding: input.rest, as: UTF8.self)
    guard let query = FormQuery(text) else { return }
    try ensure(query.items.count <= FormQuery.maximumItems, "\(query.items.count) items")
    try ensure(FormQuery(query.text) == query, "\(query) is written as \(query.text)")
    try ensure(query.text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }, query.text)
    let others = FormQuery.removing(prefix: prefix, from: text)
    let left = query.items.filter { !$0.name.utf8.starts(with: prefix.utf8) }
    try ensure(FormQuery(others)?.items == left, "\(others) is left of \(text)")
    try ensure(!FormQuery.contains(prefix: prefix, others), "\(prefix) is left in \(others)")
    for item in query.items {
        guard let number = query.number(item.name) else { continue }
        try ensure(
            item.value.utf8.drop { $0 == 0x30 }.elementsEqual("\(number == 0 ? "" : "\(number)")".utf8),
            item.value
        )
    }
}
