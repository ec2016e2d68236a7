import TestSupport
import TransportAPI

@testable import Protocols

typealias STOMPHarness = CoreHarness<STOMPClientCore>

func stompClient(_ change: (inout STOMPConfiguration) -> Void = { _ in }) throws -> STOMPHarness {
    var configuration = STOMPConfiguration(host: "example.org")
    change(&configuration)
    return STOMPHarness(try STOMPClientCore(configuration))
}

/// A client whose broker has accepted it, and has given the receipts of its subscriptions. Its output is empty.
func openSTOMPClient(
    connected: String = "CONNECTED\nversion:1.2\nserver:b\n\n^@",
    _ change: (inout STOMPConfiguration) -> Void = { _ in }
) throws -> STOMPHarness {
    var client = try stompClient(change)
    client.start()
    client.feed(stomp(connected))
    for receipt in 1...client.core.configuration.subscriptions.count + 1 where !client.isOpen {
        client.feed(stomp("RECEIPT\nreceipt-id:\(receipt)\n\n^@"))
    }
    _ = client.takeOutput()
    return client
}

extension STOMPHarness {
    mutating func feed(text: String, slice: Int = .max) { feed(stomp(text), slice: slice) }

    /// Takes the text of the written frames, in which `^@` stands for NUL.
    mutating func takeText() -> String { stompText(takeOutput()) }

    /// Takes the written frames. Heart-beats are not among them.
    mutating func takeFrames() -> [STOMPFrame] { readFrames(takeOutput()).frames }

    var acknowledged: [UInt64] {
        events.compactMap { if case .acknowledged(let id) = $0 { id } else { nil } }
    }

    var refused: [(id: UInt64, error: TransportError)] {
        events.compactMap { if case .refused(let id, let error) = $0 { (id, error) } else { nil } }
    }

    mutating func subscribe(
        _ requests: [SubscriptionRequest],
        id: UInt64
    ) throws(TransportError) -> SubscriptionSignal? {
        try core.subscribe(requests, id: id, &context)
    }

    mutating func unsubscribe(_ filters: [String], id: UInt64) throws(TransportError) -> SubscriptionSignal? {
        try core.unsubscribe(filters, id: id, &context)
    }

    var discarded: [DiscardedMessage] {
        events.compactMap { if case .discarded(let message) = $0 { message } else { nil } }
    }
}

/// The text of a MESSAGE of the first subscription.
func messageText(_ id: Int, ack: String? = nil, headers: String = "", body: String = "x") -> String {
    let ack = ack.map { "ack:\($0)\n" } ?? ""
    return "MESSAGE\nsubscription:1\nmessage-id:\(id)\ndestination:/queue/a\n\(ack)\(headers)\n\(body)^@"
}
