import TransportAPI

// Checks that the tests of several cores share.

/// Whether `body` throws an error of this code.
package func failsWith(_ code: TransportError.Code, _ body: () throws -> Void) -> Bool {
    do {
        try body()
        return false
    } catch {
        return (error as? TransportError)?.code == code
    }
}

/// The code of the error that `body` throws, or `nil` if it throws none.
package func codeOf(_ body: () throws(TransportError) -> some Any) -> TransportError.Code? {
    do throws(TransportError) {
        _ = try body()
        return nil
    } catch {
        return error.code
    }
}

/// The first word of the error with which a configuration was refused.
package func refusedKey<R>(_ body: () throws -> R) -> String? {
    do {
        _ = try body()
        return nil
    } catch {
        guard let error = error as? TransportError, error.code == .invalidConfiguration else { return nil }
        return error.reason.split(separator: " ").first.map(String.init)
    }
}

/// Changes, removes, inserts or cuts bytes.
package func mutate(_ bytes: inout [UInt8], using random: inout RandomSource) {
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
