import TransportAPI

/// One step of a core over a byte stream.
enum CoreStep {
    case feed(ArraySlice<UInt8>)
    case send(Payload)
    case ping, confirm, endInput
    case close(CloseReason)
    case wait(Duration)
}

extension FuzzInput {
    private static let waits: [Duration] = [
        .milliseconds(1), .milliseconds(200), .seconds(2), .seconds(11), .seconds(61), .seconds(600),
    ]

    /// Up to 15 actions of the user or of time, each after some bytes of the stream. All of the stream is fed.
    mutating func steps(topic: String? = nil) -> [CoreStep] {
        let endsInput = flag()
        let actions = (0..<Int(choice() & 15)).map { _ in (after: choice(), what: choice()) }
        var steps: [CoreStep] = []
        for action in actions {
            let bytes = rest.prefix(action.after == 255 ? .max : Int(action.after))
            _ = take(bytes.count)
            if !bytes.isEmpty { steps.append(.feed(bytes)) }
            steps.append(Self.action(action.what, topic))
        }
        if !rest.isEmpty { steps.append(.feed(rest)) }
        if endsInput { steps.append(.endInput) }
        return steps
    }

    private static func action(_ what: UInt8, _ topic: String?) -> CoreStep {
        let argument = Int(what >> 3)
        switch what & 7 {
        case 0:
            return .send(
                Payload([UInt8](repeating: what, count: argument), qos: Payload.QoS(rawValue: UInt8(argument % 4)))
            )
        case 1: return .send(Payload(text: String(repeating: "é", count: argument * 40)))
        case 2: return .send(Payload([UInt8](repeating: 0xff, count: argument * 100), kind: .text, topic: topic))
        case 3: return .ping
        case 4: return .confirm
        case 5: return .close(CloseReason(argument > 15 ? .user : .protocolError, code: 1000, text: "é…"))
        default: return .wait(waits[argument % waits.count])
        }
    }
}
