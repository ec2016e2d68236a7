import TransportAPI

@testable import Protocols

/// Reads a request for a session: its method, its query, Last-Event-ID and its body.
func fuzzSessionRequest(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let method = input.choice(of: ["GET", "POST", "HEAD", "get", "PUT"])
    let hasBody = input.flag()
    var headers: [HTTPHeader] = []
    for _ in 0..<(input.choice() & 3) {
        headers.append(HTTPHeader(parsed: "Last-Event-ID", String(decoding: input.record(), as: UTF8.self)))
    }
    var request = HTTPRequest(
        method: method,
        path: "/",
        query: String(decoding: input.rest, as: UTF8.self),
        headers: headers
    )
    if hasBody { request.body = [1] }
    let read: SessionRequest
    do throws(HTTPRefusal) {
        read = try SessionRequest(request)
    } catch {
        return try check(error)
    }
    guard let query = FormQuery(request.query) else { throw FuzzFailure(description: "too many items are read") }
    try check(read, of: request, query)
    try checkWritten(read)
}

/// Checks a request that was read, in the simplest way.
private func check(_ read: SessionRequest, of request: HTTPRequest, _ query: FormQuery) throws {
    func value(_ name: String) throws -> String {
        let values = query.items.filter { $0.name == name }.map(\.value)
        try ensure(values.count == 1, "\(name) comes \(values.count) times")
        return values.first ?? ""
    }
    func check(_ token: SessionToken?) throws {
        let text = try value("im-session")
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        // The last character has two bits of the token, so each fourth character of the alphabet begins with others.
        let isToken =
            text.utf8.count == 22 && text.utf8.allSatisfy(alphabet.contains)
            && "AQgw".utf8.contains(text.utf8.last ?? 0)
        try ensure((token != nil) == isToken, "\(text) is read as \(token.map(\.text) ?? "no token")")
        try ensure(token == nil || token?.text == text, text)
        try ensure(!query.items.contains { $0.name == "im-open" }, "a session is opened and named")
    }
    func check(_ number: UInt64, _ text: String) throws {
        let digits = text.drop { $0 == "0" }
        try ensure(!text.isEmpty && digits == (number == 0 ? "" : "\(number)"), "\(text) is read as \(number)")
    }
    switch read {
    case .open(let interval):
        try ensure(try request.method == "POST" && request.body.isEmpty && value("im-open") == "1", "\(request.method)")
        try ensure(!query.items.contains { $0.name == "im-session" }, "a client has chosen its session")
        try ensure(.zero...SessionRequest.longestInterval ~= interval, "\(interval)")
        let isGiven = query.items.contains { $0.name == "im-interval" }
        if isGiven { try check(UInt64(interval.wholeNanoseconds / 1_000_000), value("im-interval")) }
    case .receive(let token, let delivery, let offset):
        try check(token)
        try ensure(try request.method == "GET" && value("im-receive") == delivery.rawValue, "\(delivery)")
        let resumed = request.headers.values("Last-Event-ID")
        try ensure(resumed.count <= 1, "\(resumed.count) ids")
        try check(offset, try resumed.first ?? value("im-from"))
    case .send(let token, let offset, let received, let isLast):
        try check(token)
        try ensure(request.method == "POST", request.method)
        try check(offset, value("im-at"))
        try check(received, value("im-received"))
        try ensure(
            try isLast == query.items.contains { $0.name == "im-end" } && (!isLast || value("im-end") == "1"),
            ""
        )
    }
}

/// Checks that a request is read as it was written.
private func checkWritten(_ request: SessionRequest) throws {
    var (query, method) = (FormQuery(), "POST")
    // No session has a malformed token, whatever it was.
    func name(_ token: SessionToken?) -> String { token?.text ?? "none" }
    switch request {
    case .open(let interval):
        query.append("im-open", 1)
        query.append("im-interval", interval.wholeNanoseconds / 1_000_000)
    case .receive(let token, let delivery, let offset):
        method = "GET"
        query.append("im-session", name(token))
        query.append("im-receive", delivery.rawValue)
        query.append("im-from", offset)
    case .send(let token, let offset, let received, let isLast):
        query.append("im-session", name(token))
        query.append("im-at", offset)
        query.append("im-received", received)
        if isLast { query.append("im-end", 1) }
    }
    let again = try SessionRequest(HTTPRequest(method: method, path: "/", query: query.text))
    try ensure(again == request, "\(query.text) is read as \(again)")
}

/// Checks that a refusal says why, and that its answer is a head and a sentence into which the client cannot write.
private func check(_ refusal: HTTPRefusal) throws {
    let response = refusal.response
    try ensure([400, 405].contains(response.status) && !refusal.error.reason.isEmpty, "\(refusal)")
    try ensure((response.status == 405) == !response.headers.values("Allow").isEmpty, "\(response.headers)")
    try ensure(response.body.count <= 200, "a body of \(response.body.count) bytes")
    let isPlain = response.body.dropLast().allSatisfy { $0 >= 0x20 && $0 < 0x7f } && response.body.last == 0x0a
    try ensure(isPlain, String(decoding: response.body, as: UTF8.self))
}
