import TransportAPI

/// A frame of a client that a broker processes. Where it asks for a receipt, the broker sends that
/// (``STOMPServerCore/encode(receipt:into:)``) once it has processed the frame.
package enum STOMPSignal: Sendable, Hashable {
    /// The client was accepted. It follows ``CoreEvent/opened`` directly.
    case connected
    /// The client sends a message.
    indirect case sent(STOMPSent)
    /// The client subscribes to a destination. The id is not in use.
    indirect case subscribed(id: String, destination: String, STOMPAckMode, receipt: String?)
    /// The client ends a subscription.
    case unsubscribed(id: String, receipt: String?)
    /// The client has processed the message that it calls by this name (ACK), or has not (NACK).
    case acknowledged(name: String, Verdict, receipt: String?)

    /// What is to happen with a message that a client has received. The specification leaves to brokers what follows
    /// NACK; this is what RabbitMQ does.
    package enum Verdict: Sendable, Hashable {
        /// It is done with (ACK).
        case processed
        /// It goes back to its queue (NACK).
        case giveBack
        /// It is dropped (NACK with `requeue:false`).
        case drop
    }
}

/// A message of a client to a broker.
package struct STOMPSent: Sendable, Hashable {
    /// Where it goes.
    package var destination: String
    /// The headers that each receiver gets: all but those for the broker.
    package var headers: [STOMPHeader]
    /// The message itself.
    package var body: [UInt8]
    /// Whether it is a text in UTF-8.
    package var isText: Bool
    /// The receipt that the client asks for.
    package var receipt: String?

    /// The headers of SEND that the broker itself reads or sets.
    private static let ofBroker = ["destination", "receipt", "content-length", "message-id", "subscription", "ack"]

    init(_ frame: STOMPFrame, to destination: String) {
        self.destination = destination
        headers = frame.headers.filter { header in
            !Self.ofBroker.contains { $0.utf8.elementsEqual(header.name.utf8) }
        }
        body = frame.body
        isText = frame.isText
        receipt = frame["receipt"]
    }

    /// The bytes that it counts while a broker keeps it.
    package var bufferedBytes: Int {
        headers.reduce(destination.utf8.count + body.count + 64) { $0 + $1.name.utf8.count + $1.value.utf8.count + 64 }
    }
}

extension CoreSignal {
    /// The signal, if a server's STOMP core has reported it; `nil` for other cores.
    package var stomp: STOMPSignal? { (self as? SignalCarrier<STOMPSignal>)?.signal }
}

extension CoreEvent {
    /// The event for a signal of STOMP.
    static func stomp(_ signal: STOMPSignal) -> CoreEvent { .signal(SignalCarrier(signal)) }
}
