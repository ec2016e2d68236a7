import TransportAPI

@testable import Protocols
@testable import Transports

// What the tests of several cores share.

/// Whether `body` throws an error of this code.
func failsWith(_ code: TransportError.Code, _ body: () throws -> Void) -> Bool {
    do {
        try body()
        return false
    } catch {
        return (error as? TransportError)?.code == code
    }
}

/// The first word of the sentence with which a configuration was refused.
func refusedKey<R>(_ body: () throws -> R) -> String? {
    do {
        _ = try body()
        return nil
    } catch {
        guard let error = error as? TransportError, error.code == .invalidConfiguration else { return nil }
        return error.reason.split(separator: " ").first.map(String.init)
    }
}

/// Changes, removes, adds or cuts bytes.
func mutate(_ bytes: inout [UInt8], using random: inout RandomSource) {
    guard !bytes.isEmpty else { return bytes.append(UInt8(truncatingIfNeeded: random.next())) }
    let index = Int.random(in: bytes.indices, using: &random)
    switch random.next() % 5 {
    case 0: bytes[index] ^= 1 << UInt8(random.next() % 8)
    case 1: bytes[index] = UInt8(truncatingIfNeeded: random.next())
    case 2: bytes.remove(at: index)
    case 3: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: index)
    default: bytes.removeLast(min(bytes.count, Int(random.next() % 8)))
    }
}

extension CoreHarness {
    /// How many pings were answered.
    var pongs: Int { events.count { if case .pong = $0 { true } else { false } } }
}
